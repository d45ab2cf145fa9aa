"""A real Prometheus scrapes `kfm up --listen` each second, and sees every act under the names of the specification."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.objectives.site import Site
from tests.servers.prometheus import prometheus_server


@pytest.mark.long
def test_prometheus_sees_each_act_under_the_names_of_the_specification(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    site.kfm("run")
    with site.up() as target, prometheus_server(tmp_path / "prometheus", target) as seen:
        seen.wait_for('kfm_operations_total{op="ingest",outcome="done"}', lambda n: n == 1)
        assert seen.query('kfm_operations_total{op="promote",outcome="done"}') == {"op=promote,outcome=done": 0}
        site.kfm("publish", "rain")
        seen.wait_for('kfm_operations_total{op="promote",outcome="done"}', lambda n: n == 1)
        site.kfm("freeze", "rain")
        seen.wait_for('kfm_frozen{scope="dataset",level="red"}', lambda n: n == 1)
        site.kfm("thaw", "rain")
        seen.wait_for('kfm_operations_total{op="thaw",outcome="done"}', lambda n: n == 1)
        site.source("n\n1\n2\n")
        site.kfm("run")
        site.kfm("publish", "rain")
        site.kfm("rollback", "rain")
        seen.wait_for('kfm_operations_total{op="rollback",outcome="done"}', lambda n: n == 1)
        assert seen.query('kfm_ops_lineage_delta{op="rollback"}') == {"op=rollback": 1}
        assert seen.query("sum(kfm_ops_wal_entries)")[""] >= 7
        assert seen.query('kfm_ops_latency_ms{op="rollback"}')["op=rollback"] >= 0
        assert seen.query("kfm_ops_energy_wh{op='rollback'}")["op=rollback"] > 0
        assert seen.query("kfm_energy_joules_total")["method=estimated"] > 0
        assert seen.query("kfm_ops_carbon_gco2e") == {}, "no region is set, and unknown is absent"
        assert seen.query("kfm_ops_broken_links") == {"": 0}
        assert seen.query("kfm_frozen > 0") == {}
