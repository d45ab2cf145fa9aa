import msgspec
class IndexedItem(msgspec.Struct):
    collection:str; version:str; id:str; bbox:tuple|None; start_ms:int|None; end_ms:int|None; properties:dict; body:bytes
class Page(msgspec.Struct):
    bodies:list; next:str|None=None; matched:int|None=None
class ItemIndex:
    def __init__(self,p): self.d={}
    def versions(self): return {k:m for k,(m,_) in self.d.items()}
    def replace(self,n,m,i): self.d[n]=(m,list(i))
    def item(self,n,m,i): return next((x.body for x in self.d[n][1] if x.id==i),None)
    def search(self,q):
        return Page([x.body for n,(m,l) in self.d.items() if q.allowed.get(n)==m and (not q.collections or n in q.collections) for x in l])
    def close(self): pass
