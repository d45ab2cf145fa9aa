"""For each tile, what changed between two passes by more than the noise."""

from kfm import Output, Plan, Step, Updater

NOISE = 0.05


class Delta(Updater):
    id = "delta"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("pixels")]

    def plan(self, inputs):
        tiles = inputs[0].partitions
        return Plan([Step(id=f"tile-{tile}", key=(tile,), params={"tile": tile}) for tile in tiles], complete=True)

    def perform(self, step, read):
        changed = []
        for pixel in read.csv(0):
            delta = round(float(pixel["after"]) - float(pixel["before"]), 3)
            if pixel["tile"] == step.params["tile"] and abs(delta) > NOISE:
                changed.append({"x": int(pixel["x"]), "delta": delta})
        return Output.json({"tile": step.params["tile"], "changed": changed})
