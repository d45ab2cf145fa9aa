from kfm.app.runs.visibility import Visibility


class _D:
    def __init__(s, y):
        s.y = y

    def is_yes(s, *v):
        return s.y


class ServeGate:
    def __init__(self, session):
        self.s = session

    def decision(self, dataset, version, status, audience):
        v = self.s.state.ledger.version(dataset, version)
        return _D(Visibility(self.s).level(dataset, v) in ("public", "generalised"))
