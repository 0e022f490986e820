"""The mangle tables through `iptables-{legacy,nft}-restore`: one transaction a family."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from enum import StrEnum

from agent.mechanisms.classification.mangle import CHAIN, HOOK, TABLE, Chain, Family, Rule
from agent.mechanisms.classification.nft_generation import NftGeneration
from agent.model import AgentError

_RULE = re.compile(
    rf"-A {CHAIN} -o (?P<port>\S+) -m dscp --dscp (?P<dscp>0x[0-9a-f]+) "
    r"-j CLASSIFY --set-class 0+:(?P<priority>[0-9a-f]+)"
)
_JUMP = f"{HOOK} -j {CHAIN}"


class Flavour(StrEnum):
    LEGACY = "legacy"
    NFT = "nft"


class RestoreTables:
    def __init__(self, flavour: Flavour) -> None:
        """AgentError when the tools or the kernel lack what a rule of ours needs."""
        self.name = f"iptables-{flavour}"
        self._flavour = flavour
        probe = _transaction(Chain(), (Rule("lo", 0, 0),))
        for family in Family:
            self._run(family, "restore", "--test", "--noflush", "--wait", text=probe)
        self._generation: Callable[[], int | None] = (
            NftGeneration() if flavour is Flavour.NFT else _never_known
        )
        self._known: dict[Family, tuple[int | None, Chain]] = {}

    def read(self, family: Family) -> Chain:
        """What the family's table holds; read again only when its generation has changed."""
        generation = self._generation()
        known_at, known = self._known.get(family, (None, Chain()))
        if generation is not None and generation == known_at:
            return known
        chain = self._saved(family)
        self._known[family] = generation, chain
        return chain

    def _saved(self, family: Family) -> Chain:
        saved = self._run(family, "save", "-t", TABLE).splitlines()
        return Chain(
            exists=any(line.startswith(f":{CHAIN} ") for line in saved),
            jumps=saved.count(f"-A {_JUMP}"),
            rules=tuple(_parsed(line) for line in saved if line.startswith(f"-A {CHAIN} ")),
        )

    def write(self, family: Family, old: Chain, rules: tuple[Rule, ...]) -> None:
        self._run(family, "restore", "--noflush", "--wait", text=_transaction(old, rules))

    def _run(self, family: Family, action: str, *options: str, text: str = "") -> str:
        command = f"{family}-{self._flavour}-{action}"
        try:
            result = subprocess.run(
                [command, *options], input=text, capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            raise AgentError(f"{command} is not installed; install iptables") from None
        except OSError as reason:  # no process more is allowed, no memory is left
            raise AgentError(f"{command} could not be started: {reason}") from reason
        if result.returncode != 0:
            reasons = result.stderr.strip().splitlines() or [f"exit code {result.returncode}"]
            raise AgentError(f"{command}: {' '.join(reasons)}")
        return result.stdout


def _never_known() -> None:
    """The legacy tables have no generation."""


def _transaction(old: Chain, rules: tuple[Rule, ...]) -> str:
    lines = [f"*{TABLE}", f":{CHAIN} - [0:0]"]  # makes the chain, or empties it
    lines += (
        f"-A {CHAIN} -o {rule.port} -m dscp --dscp {rule.dscp:#04x} "
        f"-j CLASSIFY --set-class {rule.set_class}"
        for rule in rules
    )
    needed = 1 if rules else 0
    lines += [f"-D {_JUMP}"] * (old.jumps - needed)
    lines += [f"-A {_JUMP}"] * (needed - old.jumps)
    if not rules:
        lines.append(f"-X {CHAIN}")
    return "\n".join([*lines, "COMMIT", ""])


def _parsed(line: str) -> Rule | None:
    match = _RULE.fullmatch(line)
    if match is None:
        return None
    return Rule(match["port"], int(match["dscp"], 16), int(match["priority"], 16))
