"""Whose key opens the NETCONF server: what a file of authorized keys says, as sshd reads it."""

from __future__ import annotations

import asyncio
import os
import time

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.netconfd.front.logins import Logins

KEY = asyncssh.generate_private_key("ssh-ed25519").convert_to_public()
OTHER_KEY = asyncssh.generate_private_key("ssh-ed25519").convert_to_public()
ADDRESS = "192.0.2.1"
# A name that asyncssh knows how to obey; all others it takes, and does nothing.
UNKNOWN = ("verified", "max-sessions=3", 'max-sessions="3"', 'expire="20990101"', "no-restrict")


def line(key, options=""):
    return f"{options} {key.export_public_key().decode()}".lstrip()


async def no_configured_keys(_user):
    """Nobody has a key in the datastore."""
    return ""


def authorized(path, *, ca=False, key=KEY, principals=("alice",)):
    """The options with which the file lets `key` in, None if it does not."""
    keys = asyncio.run(Logins(str(path), no_configured_keys, None).keys_of("alice"))
    return None if keys is None else keys.validate(key, "", ADDRESS, principals, ca=ca)


@pytest.fixture
def opens(tmp_path):
    """Whether a file of such a line lets the key in, for a certificate's authority with `ca`."""

    def opens(options, **kind):
        file = tmp_path / "alice"
        file.write_text(line(KEY, options))
        return authorized(file, **kind) is not None

    return opens


def written(seconds_from_now, tail=""):
    moment = time.time() + seconds_from_now
    parts = time.gmtime(moment) if tail else time.localtime(moment)
    return time.strftime("%Y%m%d%H%M%S", parts) + tail


def test_a_key_is_good_until_its_expiry_time(opens):
    for past in ("20200101", "202001010000", "20200101000000z", written(-2), written(-2, "Z")):
        assert not opens(f'expiry-time="{past}"'), past
    for to_come in ("20990101", "209901010000Z", written(60), written(60, "UTC")):
        assert opens(f'expiry-time="{to_come}"'), to_come
    assert not opens('expiry-time="20990101",Expiry-Time="20200101"')


def test_an_expiry_time_without_z_is_local_time(opens, monkeypatch):
    two_hours_ago_in_utc = written(-7200, "Z")
    assert not opens(f'expiry-time="{two_hours_ago_in_utc}"')
    try:
        monkeypatch.setenv("TZ", "UTC+3")  # west of Greenwich, as POSIX writes it
        time.tzset()
        assert opens(f'expiry-time="{two_hours_ago_in_utc.removesuffix("Z")}"')
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "tomorrow", "2020", "20991301", "209901012500", "00000101"])
def test_a_key_with_an_expiry_time_that_is_none_opens_nothing(opens, text):
    assert not opens(f'expiry-time="{text}"')


@pytest.mark.parametrize(
    "options",
    [
        *UNKNOWN,
        "verify-required",
        'principals="alice"',
        # each of these has a value, or has none
        *("expiry-time", "from", "command", "pty=yes", 'cert-authority="no"'),
        # sshd wants a value in quotes, some options once, and none after the last comma
        *("from=192.0.2.1", 'from="192.0.2.1', 'from="192.0.2.1",from="192.0.2.0/24"'),
        'from="192.0.2.0/99"',
        'command="a",command="b"',
        "restrict,",
    ],
)
def test_a_line_with_options_that_are_not_understood_opens_nothing(opens, options):
    assert not opens(options)
    assert not opens(f'expiry-time="20990101",{options}')
    assert not opens(f"{options},no-pty")


@pytest.mark.parametrize(
    "options",
    [
        "",
        "restrict",
        "no-pty,no-X11-forwarding,no-agent-forwarding,no-port-forwarding,no-user-rc",
        "restrict,pty,touch-required,no-verify-required",
        'environment="A=1",permitopen="host:1",permitlisten="2",tunnel="0"',
        f'from="{ADDRESS}"',
        'FROM="192.0.2.0/24,!192.0.2.2"',
        "no-touch-required",
    ],
)
def test_a_line_whose_options_leave_nothing_to_do_or_hold_opens(opens, options):
    assert opens(options)


def test_options_in_capitals_are_obeyed(opens):
    assert not opens('FROM="192.0.2.2"')
    assert not opens("Cert-Authority")
    assert opens("Cert-Authority", ca=True)


def test_principals_are_for_a_certificates_authority(opens):
    assert opens('cert-authority,principals="alice"', ca=True)
    assert not opens('principals="alice"', ca=True)


@pytest.mark.parametrize("principals", ["*", "a*", "alic?", "!bob,alice", "alice,*"])
def test_principals_with_wildcards_are_refused_as_sshd_takes_them_for_names(tmp_path, principals):
    file = tmp_path / "alice"
    file.write_text(line(KEY, f'cert-authority,principals="{principals}"'))
    assert authorized(file, ca=True, principals=["alice"]) is None
    file.write_text(line(KEY, 'cert-authority,principals="bob,alice"'))
    assert authorized(file, ca=True, principals=["alice"]) is not None
    assert authorized(file, ca=True, principals=["alic"]) is None


def test_a_refused_line_is_in_the_log_with_file_line_and_option(tmp_path, caplog):
    file = tmp_path / "alice"
    file.write_text(f"# of alice\n\n{line(KEY, 'verify-required')}\n{line(OTHER_KEY)}\n")
    assert authorized(file) is None
    assert authorized(file, key=OTHER_KEY) == {}
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2, messages
    for message in messages:
        assert message.startswith(f"{file}:3: key refused: ")
        assert "verify-required" in message


def test_control_characters_of_a_line_do_not_reach_the_log(tmp_path, caplog):
    file = tmp_path / "alice"
    options = [f'{name}="\x1b[2J"' for name in ("expiry-time", "unknown", "from", "\x1b")]
    file.write_text("\n".join(line(KEY, each) for each in [*options, 'command="\x1b\x0b"']))
    authorized(file)
    assert len(caplog.records) >= 4
    assert "\x1b" not in caplog.text


def test_a_bad_value_in_one_line_spoils_no_other(tmp_path):
    file = tmp_path / "alice"
    file.write_text(line(KEY, 'from="192.0.2.0/99"') + "\n" + line(OTHER_KEY))
    assert authorized(file) is None
    assert authorized(file, key=OTHER_KEY) == {}


def test_a_key_within_a_comment_or_a_value_is_none(tmp_path):
    file = tmp_path / "alice"
    for separator in "\x0b\x0c\x1c\x85\u2028":
        file.write_text(f"{line(KEY).strip()} of alice{separator}{line(OTHER_KEY)}", "utf-8")
        assert authorized(file) == {}
        assert authorized(file, key=OTHER_KEY) is None
        file.write_text(line(KEY, f'command="{separator}{line(OTHER_KEY).strip()}"'), "utf-8")
        assert authorized(file, key=OTHER_KEY) is None


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\\")))
def test_a_value_means_the_same_to_us_and_to_asyncssh(tmp_path_factory, value):
    file = tmp_path_factory.getbasetemp() / "quoted"
    quoted = value.replace('"', '\\"')
    file.write_text(line(KEY, f'command="{quoted}",no-pty'), "utf-8")
    assert authorized(file) == {"command": value}


PARTS = ("restrict", "no-pty", "from", "a", *'",\\= ')


@given(st.lists(st.sampled_from(PARTS), max_size=9).map("".join))
def test_of_any_sequence_of_signs_only_known_options_open(tmp_path_factory, options):
    file = tmp_path_factory.getbasetemp() / "odd"
    file.write_text(line(KEY, options))
    if authorized(file) is not None:
        assert set(options.strip(" ").split(",")) <= {"restrict", "no-pty", ""}


@pytest.fixture
def keys(tmp_path):
    """A directory of key files, as it should be: `alice` opens."""
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o755)
    (keys / "alice").write_text(line(KEY))
    assert authorized(keys / "alice") == {}
    return keys


def test_a_link_to_a_key_file_in_a_safe_place_opens(keys, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    (keys / "alice").rename(tmp_path / "elsewhere" / "alice")
    (keys / "alice").symlink_to("../elsewhere/alice")
    assert authorized(keys / "alice") == {}


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_link_into_a_directory_that_others_may_write_opens_nothing(keys, tmp_path, mode, caplog):
    shared = tmp_path / "shared"
    shared.mkdir()
    (keys / "alice").rename(shared / "alice")
    shared.chmod(mode)
    (keys / "alice").symlink_to(shared / "alice")
    assert authorized(keys / "alice") is None
    assert f"{shared} has mode {mode:o}" in caplog.text


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_below_a_directory_that_others_may_write_no_file_opens(keys, tmp_path, mode, caplog):
    shared = tmp_path / "shared"
    shared.mkdir()
    keys.rename(shared / "keys")
    keys.symlink_to(shared / "keys")
    shared.chmod(mode)
    assert authorized(shared / "keys" / "alice") is None
    assert authorized(keys / "alice") is None, "through a link to the directory"
    assert f"{shared} has mode {mode:o}" in caplog.text


def test_who_may_write_where_a_link_lies_opens_nothing_with_another_link(keys, tmp_path):
    shared = tmp_path / "shared"
    (shared / "below").mkdir(parents=True)
    (shared / "below" / "alice").symlink_to(keys / "alice")
    assert authorized(shared / "below" / "alice") == {}
    shared.chmod(0o777)
    assert authorized(shared / "below" / "alice") is None


def test_in_a_directory_like_tmp_the_owner_of_an_entry_keeps_it(keys, tmp_path):
    tmp_path.chmod(0o1777)
    assert authorized(keys / "alice") == {}
    if os.geteuid() == 0:
        os.chown(tmp_path, 65_534, -1)
        assert authorized(keys / "alice") is None, "who owns the directory may rename all"


def test_a_link_to_nothing_or_to_itself_opens_nothing(keys, caplog):
    (keys / "alice").unlink()
    (keys / "alice").symlink_to("nobody")
    assert authorized(keys / "alice") is None
    assert not caplog.text, "as if there were no file"
    (keys / "alice").unlink()
    (keys / "alice").symlink_to("alice")
    assert authorized(keys / "alice") is None
    assert "symbolic links" in caplog.text
