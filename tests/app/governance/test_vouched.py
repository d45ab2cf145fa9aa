"""Where there is a key list, it decides which keys may sign the ledger and attest, and which KFM accepts."""

from __future__ import annotations

from tests.app.governance.people import Site

SETTINGS = """
ledger: {{sign_with: "file:{ledger}", origin: kfm.example.org/ledger, every: 1}}
attest: {{sign_with: "file:{prover}"}}
"""


def signing(site: Site, ledger: str, prover: str) -> None:
    file = site.folder / "kfm.yml"
    text = file.read_text().partition("\nledger:")[0]
    file.write_text(text + SETTINGS.format(ledger=site.key(ledger), prover=site.key(prover)))


def test_the_list_vouches_for_the_keys_and_what_it_revoked_proves_nothing_any_more(site: Site) -> None:
    assert site.add("ada", "--role", "admin", signed_by=()).code == 0
    keys = {name: site.add(name, "--purpose", purpose).data["key"] for name, purpose in PURPOSES.items()}
    signing(site, "ledger", "prover")
    assert site.kfm("run").code == 0
    audit, verified = site.kfm("audit", "verify", "--json"), site.kfm("verify", "rain-gauges", "--json")
    assert (audit.code, audit.data["vouched"]) == (0, True), audit.out
    assert (verified.code, verified.data["vouched"]) == (0, True), verified.out

    signing(site, "prover", "ledger")  # each for what it is not for
    answer = site.kfm("run", "--force", "--reason", "again")
    assert answer.code == 4 and "not in the key list" in answer.err, answer.err

    signing(site, "other", "other-prover")
    for name in ("ledger", "prover"):
        told = site.kfm("keys", "revoke", keys[name], "--key", site.key("ada"), "--reason", "lost")
        assert told.code == 0, told.err
    audit, verified = site.kfm("audit", "verify", "--json"), site.kfm("verify", "rain-gauges", "--json")
    assert (audit.code, audit.data["verdict"]) == (0, "intact"), "the new key has signed the same history since"
    assert audit.data["passed_over"] > 0
    assert verified.code == 67, "only the revoked key signed what is said about the version"
    assert site.kfm("attest", "rain-gauges").code == 0
    assert site.kfm("verify", "rain-gauges").code == 0


PURPOSES = {"ledger": "checkpoint", "other": "checkpoint", "prover": "attest", "other-prover": "attest"}
