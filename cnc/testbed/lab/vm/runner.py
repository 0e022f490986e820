"""Run one command as root in a real Linux kernel that has the taprio qdisc.

Three lanes give such a kernel: user-mode Linux (uml), Debian's binary kernel under QEMU (qemu), and
the machine's own (own).  In the first two this machine's files are the guest's root, copy-on-write:
what the command writes is gone afterwards, except below /mnt/out ($TSN_OUT), the directory given
with --out.  The command's exit code is ours; 124 is a time-out, 125 a guest that died.

It runs by itself, on the standard library: scripts/vm in a checkout, `python -m cnc.testbed.lab.vm`
wherever `cnc` is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PARTS = Path(__file__).resolve().parent / "kernels"
# As cnc/support/directories.py says, which cannot be imported here.
_XDG_CACHE = Path(os.environ.get("XDG_CACHE_HOME", ""))
CACHE = Path(
    os.environ.get("TSN_CACHE")
    or (_XDG_CACHE if _XDG_CACHE.is_absolute() else Path.home() / ".cache") / "tsn-control-plane"
)

EXIT_TIMEOUT = 124
EXIT_GUEST_DIED = 125
# Virtual time starts at the same instant in every run, so that runs repeat to the nanosecond. It is
# not a whole millisecond: the kernel's ticks must not coincide with the start of a cycle.
VIRTUAL_EPOCH_NS = 1_893_456_000 * 10**9 + 345_678  # 2030-01-01T00:00:00Z
# What is random in such a guest is the same in every run, too: keys in it are no secrets.
VIRTUAL_SEED = 1
CONSOLE_LINES_SHOWN = 25
# What um-oscillator.patch takes.
MAX_OSCILLATOR_PPB = 100_000_000
OUT_VARIABLE = "TSN_OUT"
PASSED_ON = ("TSN_", "PYTEST_", "HYPOTHESIS_", "LC_")
PASSED_ON_EXACTLY = ("LANG", "TERM", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "CI")


class VmError(Exception):
    """A lane cannot be taken; the text says why and what to do."""


@dataclass(frozen=True)
class Request:
    """What the caller asked for."""

    command: list[str]
    memory: str
    out: Path | None
    timeout_s: float
    virtual_time: bool
    oscillator_ppb: int


# --- artefacts: the kernels, built once into the cache ---


def artefact(kind: str) -> Path | None:
    """The newest cached kernel directory of this kind whose build recipe is today's, if any."""
    built = sorted(CACHE.glob(f"{kind}-*-{recipe_hash(kind)}"), key=lambda d: d.stat().st_mtime)
    return built[-1] if built else None


def recipe_hash(kind: str) -> str:
    """Changes whenever a file that decides what gets built changes."""
    patches = sorted(each.name for each in PARTS.glob("um-*.patch"))
    recipes = {
        "uml": ("build-uml", "uml.config", *patches),
        "qemu": ("build-qemu", "init-qemu"),
    }
    digest = hashlib.sha256(platform.machine().encode())
    for name in recipes[kind]:
        digest.update((PARTS / name).read_bytes())
    return digest.hexdigest()[:12]


def build(kind: str) -> Path:
    """Build the kernel of this kind unless the cache has it; two callers never build at once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = {**os.environ, "TSN_CACHE": str(CACHE), "RECIPE": recipe_hash(kind)}
        # The builder's progress is for the user: it must not mix with a command's output.
        done = subprocess.run(
            [PARTS / f"build-{kind}"], env=environment, stdout=sys.stderr, check=False
        )
        kernel = artefact(kind)
        if done.returncode != 0 or kernel is None:
            raise VmError(f"the {kind} kernel could not be built (see above)")
    return kernel


@contextlib.contextmanager
def own_processor() -> Iterator[list[str]]:
    """The words before a command that bind it to a processor, for kernels in virtual time.

    Of all processes of such a kernel one computes and the others wait for it, and they take turns
    at each system call of the guest: between two processors that takes twice as long. No other
    kernel gets the processor until the end of `with`; where none is left the words are none.
    """
    directory = CACHE / "processors"
    directory.mkdir(parents=True, exist_ok=True)
    for number in sorted(os.sched_getaffinity(0)):
        with (directory / f"{number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield ["taskset", "--cpu-list", str(number)]
            return
    yield []


def own_kernel_lacks() -> str | None:
    """Why this machine's own kernel cannot serve; None when it can."""
    if os.geteuid() != 0:
        return "not root"
    probe = (
        "ip link add p0 numtxqueues 2 type veth peer name p1 && ip link set p0 up && "
        "tc qdisc add dev p0 root taprio num_tc 2 map 0 1 queues 1@0 1@1 base-time 0 "
        "sched-entry S 03 1000000 clockid CLOCK_TAI"
    )
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", probe], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return None
    reason = done.stderr.strip().splitlines()
    # What tc calls an error is none here: another lane serves.
    return f"no taprio ({reason[-1].removeprefix('Error: ') if reason else 'probe failed'})"


def choose(lane: str, virtual_time: bool) -> tuple[str, str]:
    """The lane to take and the reason for it."""
    if lane == "own" and virtual_time:
        raise VmError("--own runs in real time; --virtual-time needs --uml or --qemu")
    if lane != "auto":
        if lane == "own" and (lack := own_kernel_lacks()):
            raise VmError(f"this machine's own kernel cannot serve: {lack}; try --uml or --qemu")
        return lane, "asked for"
    if virtual_time:
        lack = "its time is real"
    elif not (lack := own_kernel_lacks() or ""):
        return "own", "this machine's own kernel has taprio"
    if artefact("uml"):
        return "uml", f"own kernel: {lack}; a user-mode kernel is in the cache"
    return "qemu", f"own kernel: {lack}; no user-mode kernel in the cache (--build makes one)"


# --- running ---


def guest_environment() -> dict[str, str]:
    """The variables the command sees: a clean set, with the programs of this Python environment."""
    own = f"{sys.prefix}/bin:{sys.prefix}/sysrepo/bin:" if sys.prefix != sys.base_prefix else ""
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    passed = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(PASSED_ON) or name in PASSED_ON_EXACTLY
    }
    passed.pop(OUT_VARIABLE, None)  # a path of this machine, which the guest cannot write to
    return {
        "HOME": "/root",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        **passed,
        "PATH": f"{own}{system}",
        # The copy-on-write root forgets every .pyc: writing them only costs time.
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def write_command(request: Request, lane: str, path: Path) -> None:
    """The script that the guest runs: environment, working directory, command."""
    variables = {**guest_environment(), "TSN_VM": lane}
    if request.virtual_time:
        variables["TSN_VIRTUAL_TIME"] = "1"
    if request.out:
        variables[OUT_VARIABLE] = "/mnt/out" if lane != "own" else str(request.out)
    assignments = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    path.write_text(
        f"cd {shlex.quote(str(Path.cwd()))} || exit\n"
        f"exec env -i {assignments} {shlex.join(request.command)}\n"
    )


def uml_command(request: Request, run: Path, ports: list[int]) -> list[str]:
    """Arguments that boot the cached user-mode kernel; one console a port."""
    travel = ["time-travel=inf-cpu", f"time-travel-start={VIRTUAL_EPOCH_NS}"]
    travel += [f"random-seed={VIRTUAL_SEED}"]
    oscillator = [f"oscillator-ppb={request.oscillator_ppb}"]
    return [
        *uml_boot(run, request.memory, ports),
        *(travel if request.virtual_time else []),
        *(oscillator if request.oscillator_ppb else []),
    ]


def uml_boot(run: Path, memory: str, ports: list[int]) -> list[str]:
    """Arguments that every user-mode kernel gets: its files, its consoles, its log on fd 1."""
    kernel = artefact("uml") or build("uml")
    consoles = [f"con{n}=null,fd:{fd}" for n, fd in enumerate(ports, 1)]
    # Built in, these drivers would create devices that are not needed.
    no_devices = ["bonding.max_bonds=0", "mac80211_hwsim.radios=0"]
    return [
        *(str(kernel / "linux"), f"mem={memory}", f"uml_dir={run}/", "umid=guest"),
        *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={PARTS}/init-uml"),
        *("con=null", "con0=null,fd:1", *consoles, "panic=1", "quiet", f"tsn.run={run}"),
        *no_devices,
    ]


def qemu_command(request: Request, run: Path, ports: list[int]) -> list[str]:
    """Arguments that boot Debian's kernel under emulation; one virtio port a stream."""
    kernel = artefact("qemu") or build("qemu")

    def share(tag: str, path: Path | str, *options: str) -> list[str]:
        local = ["local", f"path={path}", "security_model=none", "multidevs=remap", f"id={tag}"]
        device = f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"
        return ["-fsdev", ",".join([*local, *options]), "-device", device]

    streams: list[str] = []
    for n, fd in enumerate(ports, 1):
        streams += ["-chardev", f"file,id=port{n},path=/dev/fd/{fd}"]
        streams += ["-device", f"virtserialport,chardev=port{n},nr={n}"]
    # Emulation, not KVM: a nested KVM device may exist and still not boot a stock kernel.
    # With icount the guest's clock counts its instructions and jumps over idle time.
    clock = ["-accel", "tcg,thread=multi", "-smp", "2"]
    if request.virtual_time:
        clock = ["-accel", "tcg", "-icount", "shift=0,sleep=off,align=off", "-smp", "1"]
        clock += ["-rtc", "base=2030-01-01T00:00:00,clock=vm"]
    append = (
        "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check "
        f"random.trust_cpu=on tsn.run={run} tsn.parts={PARTS} tsn.modules={kernel}/lib/modules"
    )
    return [
        *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-no-reboot", "-M", "q35", "-cpu", "max", "-m", request.memory, *clock),
        *("-serial", "stdio", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci"),
        *(*streams, *share("root", "/", "readonly=on")),
        *(share("out", request.out) if request.out else []),
        *("-kernel", str(kernel / "kernel"), "-initrd", str(kernel / "initrd")),
        *("-append", append),
    ]


class Guest:
    """One booted guest: its process, the three streams out of it, and its end."""

    def __init__(
        self, lane: str, request: Request, run: Path, processor: Sequence[str] = ()
    ) -> None:
        self.console = run / "console"
        readers, writers = zip(*(os.pipe() for _ in range(3)), strict=True)
        self.stdout, self.stderr, self.status = readers
        arguments = uml_command if lane == "uml" else qemu_command
        with self.console.open("wb") as log:
            self.process = subprocess.Popen(
                [*processor, *arguments(request, run, list(writers))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=writers,
                start_new_session=True,
            )
        for fd in writers:
            os.close(fd)

    def wait(self, deadline: float) -> int:
        """Stream until the guest is gone; the command's exit code, or why there is none."""
        status = b""
        sinks = {self.stdout: sys.stdout.buffer, self.stderr: sys.stderr.buffer}
        with selectors.DefaultSelector() as selector:
            for fd in (*sinks, self.status):
                selector.register(fd, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    return EXIT_TIMEOUT
                for key, _ in ready:
                    if not (data := os.read(key.fd, 65536)):
                        selector.unregister(key.fd)
                    elif key.fd == self.status:
                        status += data
                    else:
                        sinks[key.fd].write(data)
                        sinks[key.fd].flush()
        return int(status) if status.strip().isdigit() else EXIT_GUEST_DIED

    def kill(self) -> None:
        """End every process of the guest (user-mode Linux has one for each address space)."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def run_directory(request: Request, lane: str) -> Iterator[Path]:
    """A private directory that the guest can see, with the command and where its results go."""
    run = Path(tempfile.mkdtemp(prefix="tsn-vm-"))
    try:
        write_command(request, lane, run / "command")
        if request.out:
            (run / "out").symlink_to(request.out)
        yield run
    finally:
        shutil.rmtree(run, ignore_errors=True)


def run_in_guest(lane: str, request: Request) -> int:
    """Boot, run, power off; the kernel's console is shown only when the guest died."""
    takes_turns = lane == "uml" and request.virtual_time
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(run_directory(request, lane))
        processor = stack.enter_context(own_processor()) if takes_turns else []
        guest = Guest(lane, request, run, processor)
        try:
            result = guest.wait(time.monotonic() + request.timeout_s)
        finally:
            guest.kill()
            if request.out:
                shutil.copyfile(guest.console, request.out / "console.log")
        if result in (EXIT_TIMEOUT, EXIT_GUEST_DIED):
            died = f"no end after {request.timeout_s:g} s (--timeout)"
            reason = died if result == EXIT_TIMEOUT else "the guest died before the command ended"
            lines = guest.console.read_text(errors="replace").splitlines()
            print(f"vm: {lane}: {reason}; its console said:", file=sys.stderr)
            print("\n".join(lines[-CONSOLE_LINES_SHOWN:]), file=sys.stderr)
        return result


def run_on_own_kernel(request: Request) -> int:
    """The command in network and mount namespaces of its own; its files are the real ones."""
    with run_directory(request, "own") as run:
        script = f"ip link set lo up; exec bash {run}/command"
        flags = ("net", "mount", "pid", "fork", "kill-child", "mount-proc")
        isolated = ["unshare", *(f"--{flag}" for flag in flags)]
        process = subprocess.Popen([*isolated, "bash", "-c", script], stdin=subprocess.DEVNULL)
        try:
            return process.wait(request.timeout_s)
        except subprocess.TimeoutExpired:
            print(f"vm: own: no end after {request.timeout_s:g} s", file=sys.stderr)
            return EXIT_TIMEOUT
        finally:
            process.kill()
            process.wait()


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line; everything from the first word that is not an option belongs to the
    command."""
    parser = argparse.ArgumentParser(prog="vm", description=__doc__)
    lane = parser.add_mutually_exclusive_group()
    for name, text in (
        ("uml", "user-mode Linux, built into the cache when missing"),
        ("qemu", "Debian's binary kernel, emulated"),
        ("own", "this machine's own kernel, in namespaces"),
        ("auto", "own if it has taprio, else uml if cached, else qemu (default)"),
    ):
        lane.add_argument(f"--{name}", dest="lane", action="store_const", const=name, help=text)
    parser.set_defaults(lane="auto")
    parser.add_argument(
        "--virtual-time",
        action="store_true",
        help="time passes only while everything in the guest sleeps: exact and repeatable",
    )
    parser.add_argument(
        "--oscillator-ppb",
        type=int,
        default=0,
        metavar="PPB",
        help="with --uml: the guest's clock runs faster by so many parts in 10^9 (below 0: slower)",
    )
    parser.add_argument("--memory", default="1G", help="the guest's memory (default 1G)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        default=os.environ.get(OUT_VARIABLE) or None,
        help="keep what the command writes below $TSN_OUT, which is /mnt/out in a guest, in this "
        "directory (default: that of TSN_OUT here, else nothing is kept)",
    )
    parser.add_argument("--timeout", type=float, default=900, metavar="SECONDS")
    parser.add_argument("--build", action="store_true", help="build the user-mode kernel; no run")
    parser.add_argument("--which", action="store_true", help="print the lane and why; no run")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD")
    options = parser.parse_args(argv)
    if options.command[:1] == ["--"]:
        del options.command[0]
    if not (options.command or options.build or options.which):
        parser.error("no command given")
    if options.oscillator_ppb and options.lane != "uml":
        parser.error("--oscillator-ppb needs --uml: no other kernel's clock can be set off")
    if abs(options.oscillator_ppb) > MAX_OSCILLATOR_PPB:
        parser.error(f"--oscillator-ppb is at most {MAX_OSCILLATOR_PPB} either way")
    return options


def main(argv: list[str]) -> int:
    """Do what the command line says; 2 for a bad one, 1 when no lane can be taken."""
    options = parse(argv)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    try:
        if options.build:
            print(build("uml") / "linux")
            return 0
        lane, why = choose(options.lane, options.virtual_time)
        if options.which:
            print(f"{lane}: {why}")
            return 0
        request = Request(
            command=options.command,
            memory=options.memory,
            out=options.out.resolve() if options.out else None,
            timeout_s=options.timeout,
            virtual_time=options.virtual_time,
            oscillator_ppb=options.oscillator_ppb,
        )
        return run_on_own_kernel(request) if lane == "own" else run_in_guest(lane, request)
    except VmError as error:
        print(f"vm: {error}", file=sys.stderr)
        return 1


def stop(number: int, _frame: object) -> None:
    """Leave through every finally, so that no guest outlives us."""
    raise SystemExit(128 + number)


def run() -> None:
    """Be the program that the command line starts."""
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
