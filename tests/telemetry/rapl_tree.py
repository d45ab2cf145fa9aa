"""A folder like /sys/class/powercap, whose counters a test moves."""

from __future__ import annotations

from pathlib import Path

RANGE_UJ = 262_143_328_850


class RaplTree:
    """Counters of two packages with their parts, one of the whole platform, and one that shows a package again."""

    def __init__(self, folder: Path, packages: int = 2) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        (folder / "intel-rapl").mkdir()  # the controller, which counts nothing
        for n in range(packages):
            self.domain(f"intel-rapl:{n}", f"package-{n}")
            self.domain(f"intel-rapl:{n}:0", "core")
            self.domain(f"intel-rapl:{n}:1", "dram")
        self.domain(f"intel-rapl:{packages}", "psys")
        self.domain("intel-rapl-mmio:0", "package-0")

    def domain(self, name: str, what: str) -> None:
        at = self.folder / name
        at.mkdir()
        (at / "name").write_text(f"{what}\n")
        (at / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        (at / "energy_uj").write_text("1000000\n")

    def counter(self, name: str) -> Path:
        return self.folder / name / "energy_uj"

    def spend(self, joules: float, name: str = "intel-rapl:0") -> None:
        """Move the counter of a domain, which begins again past its range. Its parts and the platform move, too."""
        for each in sorted(self.folder.iterdir()):
            moves = each.name in (name, f"{name}:0", f"{name}:1", "intel-rapl-mmio:0")
            if moves or ((each / "name").exists() and (each / "name").read_text() == "psys\n"):
                now = int((each / "energy_uj").read_text()) + round(joules * 1e6)
                (each / "energy_uj").write_text(f"{now % RANGE_UJ}\n")
