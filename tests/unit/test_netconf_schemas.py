"""The YANG library as RFC 6022 and RFC 6020 want it told: schemas, revisions, capabilities."""

from __future__ import annotations

import pytest

from agent.netconfd.broker.schemas import Library
from agent.netconfd.errors import RpcError

LIBRARY = "urn:ietf:params:xml:ns:yang:ietf-yang-library"
YANG_1 = "module {name} {{ namespace 'urn:{name}'; prefix x; }}"
YANG_1_1 = "module {name} {{\n  yang-version 1.1;\n  namespace 'urn:{name}'; prefix x; }}"


@pytest.fixture
def library(tmp_path):
    """Modules a (YANG 1) with a submodule, b (YANG 1.1), and two revisions of an imported c."""

    def module(kind, name, revision, content="", text=YANG_1):
        file = tmp_path / f"{name}@{revision}.yang"
        file.write_text(text.format(name=name), encoding="utf-8")
        return (
            f"<{kind}><name>{name}</name><revision>{revision}</revision>"
            f"<namespace>urn:{name}</namespace><location>{file.as_uri()}</location>{content}</{kind}>"
        )

    submodule = "<submodule><name>a-part</name><revision>2001-01-01</revision></submodule>"
    told = "<feature>f</feature><feature>g</feature><deviation>d</deviation>"
    modules = [
        module("module", "a", "2001-01-01", told + submodule),
        module("module", "b", "2002-02-02", text=YANG_1_1),
        module("import-only-module", "c", "2003-03-03"),
        module("import-only-module", "c", "2004-04-04"),
        module("module", "ietf-yang-library", "2019-01-04", text=YANG_1_1).replace(
            "urn:ietf-yang-library", LIBRARY
        ),
        module("import-only-module", "elsewhere", "2005-05-05").replace(
            "file:///", "https://example.com/"
        ),
    ]
    return Library(
        f'<yang-library xmlns="{LIBRARY}">'
        f"<module-set><name>all</name>{''.join(modules)}</module-set>"
        "<content-id>7</content-id></yang-library>"
    )


def refusal(library, *wanted):
    with pytest.raises(RpcError) as refused:
        library.find(*wanted)
    return refused.value.tag, refused.value.app_tag


def test_a_schema_with_one_revision_needs_no_version(library):
    assert library.find("a", None) == library.find("a", "2001-01-01")


def test_a_schema_with_two_revisions_needs_its_version(library):
    assert refusal(library, "c", None) == ("operation-failed", "data-not-unique")
    assert library.find("c", "2004-04-04").revision == "2004-04-04"


@pytest.mark.parametrize("wanted", [("d", None), ("a", "1999-09-09"), ("a", "")])
def test_a_schema_that_is_not_there_is_no_value(library, wanted):
    assert refusal(library, *wanted) == ("invalid-value", None)


def test_a_submodule_has_the_namespace_of_its_module_and_no_yin(library):
    part = library.find("a-part", None)
    assert (part.namespace, part.formats) == ("urn:a", ("yang",))


def test_a_module_of_yang_1_is_announced_with_its_features_and_deviations(library):
    capabilities = library.capabilities()
    assert "urn:a?module=a&revision=2001-01-01&features=f,g&deviations=d" in capabilities


def test_modules_of_yang_1_1_and_those_only_imported_are_not_announced(library):
    assert [each for each in library.capabilities() if each.startswith("urn:b")] == []
    assert [each for each in library.capabilities() if each.startswith("urn:c")] == []


def test_both_capabilities_of_the_library_name_its_contents(library):
    capability = "urn:ietf:params:netconf:capability:yang-library"
    assert library.capabilities()[:2] == [
        f"{capability}:1.0?revision=2019-01-04&module-set-id=7",
        f"{capability}:1.1?revision=2019-01-04&content-id=7",
    ]


def test_only_files_of_this_host_are_read(library):
    assert library.find("elsewhere", None).file is None
    assert library.find("a", None).file.name == "a@2001-01-01.yang"
