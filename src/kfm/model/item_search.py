import msgspec
class SearchRequest(msgspec.Struct):
    collections: tuple=(); fields: object=None
class ItemQuery(msgspec.Struct):
    allowed: dict; collections: tuple=()
    @classmethod
    def of(cls, r, a): return cls(a, r.collections)
def apply_fields(i,f): return i
def search_of_query(g, within=""): return SearchRequest((within,) if within else tuple(filter(None,g.get("collections","").split(","))))
def search_of_body(d): return SearchRequest(tuple(d.get("collections",())))
