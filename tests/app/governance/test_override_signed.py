"""An override of an objective under a key list: a steward signs it, and nobody else can."""

from __future__ import annotations

from tests.app.governance.people import Site
from tests.app.objectives.site import promise

OVERRIDE = ("slo", "override", "gauges", "--until", "12h", "--reason", "we know why")


def test_under_a_key_list_a_steward_signs_an_override(site: Site) -> None:
    site.make_list()
    promise(site.folder, "gauges", dataset="rain-gauges")
    assert site.kfm("run").code == 0
    assert site.kfm(*OVERRIDE).code == 4, "without a signature"
    for name in ("olli", "ada", "vic"):
        assert site.kfm(*OVERRIDE, "--key", site.key(name)).code == 4, name
        assert not site.ref("override/gauges")
    assert site.ledger()[-1][:2] == ("override", "denied"), "what was tried is in the ledger"
    assert site.kfm(*OVERRIDE, "--key", site.key("sue")).code == 0
    assert site.ref("override/gauges") and site.ledger()[-1] == ("override", "done", "sue")
    assert site.kfm("slo", "show", "gauges", "--json").data["override"]
    assert site.kfm("audit", "verify").code in (0, 68)
