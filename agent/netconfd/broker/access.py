"""Access control for operations: NACM (RFC 8341), section 3.4.4.

sysrepo applies the rules about data (section 3.4.5) inside the session of each user; those about
operations are applied by the server. The user with uid 0 has the recovery session (section 3.2.1):
no rule applies to root, here or in sysrepo.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.netconfd.broker.data_access import (
    ALL_RIGHTS,
    RIGHTS,
    DataRights,
    DataRule,
    Right,
)
from agent.netconfd.errors import RpcError, RpcErrors
from agent.sysrepo import SysrepoConnection, SysrepoError
from agent.sysrepo.changes import follow
from agent.sysrepo.nacm import Nacm

NACM = "/ietf-netconf-acm:nacm"

_ANY = "*"
# Section 3.4.4 step 11: denied unless a rule permits it.
_DENIED_BY_DEFAULT = {
    ("ietf-netconf", "kill-session"),
    ("ietf-netconf", "delete-config"),
    ("ietf-subscribed-notifications", "kill-subscription"),
}
_ALWAYS_PERMITTED = ("ietf-netconf", "close-session")


@dataclass(frozen=True)
class Account:
    """The user of a session. `unix_groups` are NACM's external groups."""

    name: str
    unix_groups: frozenset[str] = frozenset()
    is_recovery: bool = False


def look_up(name: str) -> Account:
    """The user as the machine knows it; most NETCONF users have no account. May block."""
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return Account(name)
    groups = set()
    for gid in os.getgrouplist(name, account.pw_gid):
        try:
            groups.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return Account(name, frozenset(groups), is_recovery=account.pw_uid == 0)


@dataclass(frozen=True)
class _Rule:
    module: str
    operation: str
    is_permit: bool

    def matches(self, module: str, operation: str) -> bool:
        return self.module in {_ANY, module} and self.operation in {_ANY, operation}


@dataclass(frozen=True)
class _RuleList:
    groups: frozenset[str]
    operations: Sequence[_Rule]
    data: Sequence[DataRule]

    @classmethod
    def from_json(cls, rule_list: Mapping[str, Any]) -> _RuleList:
        rules = rule_list.get("rule", ())
        groups = frozenset(rule_list.get("group", ()))
        return cls(groups, _rules(rules), DataRule.all_of(rules))


@dataclass(frozen=True)
class Policy:
    """The rules of a NACM configuration about operations, and about data by its path."""

    is_enabled: bool
    is_exec_default_permit: bool
    uses_unix_groups: bool
    groups_of: Mapping[str, frozenset[str]]
    rule_lists: Sequence[_RuleList]
    default_rights: frozenset[Right]

    @classmethod
    def from_json(cls, nacm: Mapping[str, Any]) -> Policy:
        """From the container `nacm` as RFC 7951 JSON with its defaults."""
        groups_of: dict[str, frozenset[str]] = {}
        for group in nacm.get("groups", {}).get("group", ()):
            for user in group.get("user-name", ()):
                groups_of[user] = groups_of.get(user, frozenset()) | {group["name"]}
        return cls(
            is_enabled=nacm["enable-nacm"],
            is_exec_default_permit=nacm["exec-default"] == "permit",
            uses_unix_groups=nacm["enable-external-groups"],
            groups_of=groups_of,
            rule_lists=[_RuleList.from_json(each) for each in nacm.get("rule-list", ())],
            default_rights=frozenset(
                right
                for right in RIGHTS
                if nacm["read-default" if right == "read" else "write-default"] == "permit"
            ),
        )

    def permits(self, account: Account, module: str, operation: str) -> bool:
        """Whether it may execute the module's operation."""
        if self._is_unrestricted(account) or (module, operation) == _ALWAYS_PERMITTED:
            return True
        for rule_list in self._rule_lists_of(account):
            for rule in rule_list.operations:
                if rule.matches(module, operation):
                    return rule.is_permit
        if (module, operation) in _DENIED_BY_DEFAULT:
            return False
        return self.is_exec_default_permit

    def data_rights(self, account: Account) -> DataRights:
        """What it may do with data."""
        if self._is_unrestricted(account):
            return ALL_RIGHTS
        of_account = self._rule_lists_of(account)
        rules = [rule.of(account.name) for each in of_account for rule in each.data]
        return DataRights(rules, self.default_rights)

    def _is_unrestricted(self, account: Account) -> bool:
        return not self.is_enabled or account.is_recovery

    def _rule_lists_of(self, account: Account) -> Iterator[_RuleList]:
        groups = self.groups_of.get(account.name, frozenset())
        if self.uses_unix_groups:
            groups |= account.unix_groups
        for rule_list in self.rule_lists:
            # The group * matches every user who is in any group.
            if groups and (groups & rule_list.groups or _ANY in rule_list.groups):
                yield rule_list

    def permits_any(self, account: Account, operations: Iterable[tuple[str, str]]) -> bool:
        """Whether it may execute one of them at least, besides closing its session."""
        return any(self.permits(account, *each) for each in operations if each != _ALWAYS_PERMITTED)


def _rules(rules: Sequence[Mapping[str, Any]]) -> Sequence[_Rule]:
    """Those that can match an operation: no other kind of target, and access right exec."""
    return [
        _Rule(rule["module-name"], rule.get("rpc-name", _ANY), rule["action"] == "permit")
        for rule in rules
        if not {"path", "notification-name"} & rule.keys()
        and {"exec", _ANY} & set(rule["access-operations"].split())
    ]


def access_denied(user: str, operation: str) -> RpcError:
    """The user may not execute the operation, `MODULE:NAME`."""
    return RpcError(
        "access-denied",
        f"access control (NACM) does not let {user} execute {operation}",
        "protocol",
    )


class AccessControl:
    """The rules in force, and what they denied. Construction and `close` block."""

    def __init__(self, connection: SysrepoConnection) -> None:
        """Put the data rules in force and follow the operation rules. Raises SysrepoError."""
        self._denied = dict.fromkeys(("operations", "data-writes", "notifications"), 0)
        self._session = connection.start_session("running")
        self._policy: Policy
        try:
            follow(self._session, NACM, self._use)
            self._state = connection.start_session("operational")
            for name in self._denied:
                path = f"{NACM}/denied-{name}"
                self._state.subscribe_oper_data_request(
                    "ietf-netconf-acm", path, self._counter(name)
                )
            self._nacm = Nacm(self._session)
        except SysrepoError:
            self._session.stop()
            raise

    def close(self) -> None:
        """Stop applying the rules. Close every session that has a user first."""
        self._nacm.close()
        self._state.stop()
        self._session.stop()

    @property
    def policy(self) -> Policy:
        """The rules about operations that are in force now."""
        return self._policy

    def check_operation(self, account: Account, module: str, operation: str) -> None:
        """Raise RpcError access-denied if the user may not execute the operation."""
        if not self._policy.permits(account, module, operation):
            self.count_denied_operation()
            raise access_denied(account.name, f"{module}:{operation}")

    def count_denied_operation(self) -> None:
        """Count an operation that its user may not execute."""
        self._denied["operations"] += 1

    def count_refusal(self, errors: RpcErrors) -> None:
        """Count a denied write, if that is what failed."""
        self._denied["data-writes"] += any(each.tag == "access-denied" for each in errors.errors)

    def count_denied_notification(self) -> None:
        """Count a notification that a subscriber may not see."""
        self._denied["notifications"] += 1

    def _use(self, nacm: dict[str, Any]) -> None:
        self._policy = Policy.from_json(nacm)

    def _counter(self, name: str) -> Callable[[str, Any], dict[str, Any]]:
        def answer(_xpath: str, _private: Any) -> dict[str, Any]:
            return {"nacm": {f"denied-{name}": self._denied[name]}}

        return answer
