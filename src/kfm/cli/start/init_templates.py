"""The files that `kfm init --template` writes next to the head of the configuration: a dataset, its data, and a
README."""

from __future__ import annotations

PUBLIC = """\
    description: Invented, to have something to run
    license: CC0-1.0
    sensitivity: public
    attribution: Nobody; the numbers are made up
    extent: {bbox: [-102.05, 36.99, -94.59, 40.0], interval: ["2025-11-01T00:00:00Z", null]}
"""
CSV = f"""\
datasets:
  rain-gauges:
    version: "1.0.0"                    # change it whenever `outputs` change
    title: Rain gauges
{PUBLIC}\
    sources:
      gauges:
        uri: data/rain_gauges.csv       # or https://…; the bytes are hashed on the way in
        format: csv
        contract:                       # what does not fit is quarantined, with the reason
          columns:
            - {{name: gauge, required: true}}
            - {{name: rain_mm, type: number, minimum: 0, mode: discard-row}}
    outputs:
      gauges:                           # published as gauges.csv
        from: gauges
        steps:
          - cast: {{rain_mm: number}}
          - sort: [county, gauge, month]
"""
GEOJSON = f"""\
datasets:
  wells:
    version: "1.0.0"                    # change it whenever `outputs` change
    title: Wells
{PUBLIC}\
    sources:
      wells:
        uri: data/wells.geojson         # or https://…; the bytes are hashed on the way in
        format: geojson
        contract:                       # what does not fit is quarantined, with the reason
          columns:
            - {{name: depth_ft, type: number, minimum: 0, mode: discard-row}}
    outputs:
      deep:                             # published as deep.geojson
        from: wells
        steps:
          - filter: {{column: depth_ft, at_least: 1000}}
          - select: [id, geometry, depth_ft]
          - sort: [id]
"""
GEOJSON_DATA = """\
{"type": "FeatureCollection", "features": [
  {"type": "Feature", "id": "a", "geometry": {"type": "Point", "coordinates": [-98.5, 38.25]}, "properties": {"depth_ft": 5661}},
  {"type": "Feature", "id": "b", "geometry": {"type": "Point", "coordinates": [-97.9, 38.05]}, "properties": {"depth_ft": 120}}
]}
"""  # noqa: E501
STAC = f"""\
datasets:
  scenes:
    version: "1.0.0"                    # change it whenever `outputs` change
    title: Scenes
{PUBLIC}\
    sources:
      scene:
        uri: data/scene.json            # or https://…; the bytes are hashed on the way in
        format: stac
        contract:                       # what does not fit is quarantined, with the reason
          columns:
            - {{name: platform, required: true}}
    outputs:
      scenes:                           # published as scenes.csv
        from: scene
        steps:
          - select: [id, datetime, platform, /assets/image/href]
          - rename: {{/assets/image/href: image}}
        format: csv
"""
STAC_DATA = """\
{
  "type": "Feature",
  "stac_version": "1.0.0",
  "id": "scene-1",
  "geometry": {"type": "Point", "coordinates": [-98.5, 38.25]},
  "bbox": [-98.5, 38.25, -98.5, 38.25],
  "properties": {"datetime": "2026-01-01T00:00:00Z", "platform": "kite"},
  "links": [],
  "assets": {"image": {"href": "https://example.org/scene-1.tif"}}
}
"""
TEST = '''\
"""`pytest` tries the dataset in a temporary house: dry, twice, elsewhere, and killed at every boundary."""


def test_it_keeps_what_every_updater_promises(kfm_updater):
    kfm_updater("{dataset}").check()
'''
IGNORED = """\
# What kfm makes: its state and what it published. Keep both, elsewhere: see `kfm help` and the backups of your state.
/.kfm/
/public/
/catalog/
__pycache__/
.pytest_cache/
"""
README = """\
# An installation of kfm

| | |
|---|---|
| `kfm run --dry-run` | tells what would happen |
| `kfm run` | fetches, checks and makes a version of what changed |
| `kfm publish {dataset} --reason "first edition"` | publishes it, into `public/` |
| `kfm status` | everything at a glance |
| `pytest` | tries it in a temporary house, killed at every boundary |

`kfm.yml` says what there is. Editors that know `yaml-language-server` complete and check it by `kfm.schema.json`, which
`kfm config schema config > kfm.schema.json` writes again after an upgrade.

## By the clock

It is silent unless something is wrong. For cron (`crontab -e`), as it is:

```cron
*/15 * * * *  {command} run --quiet --config {config} > /dev/null
```

For systemd, as `~/.config/systemd/user/kfm.service`:

```ini
[Unit]
Description=kfm run

[Service]
Type=oneshot
ExecStart={command} run --quiet --config {config}
```

and `~/.config/systemd/user/kfm.timer`, which `systemctl --user enable --now kfm.timer` starts:

```ini
[Unit]
Description=kfm run, every quarter of an hour

[Timer]
OnCalendar=*:0/15
Persistent=true

[Install]
WantedBy=timers.target
```

Where datasets have a `schedule`, `kfm runners write systemd` makes both of what they say.
"""
