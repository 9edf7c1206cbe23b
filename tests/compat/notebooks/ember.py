"""torchEmber's notebook "Torch Ember Core", cell by cell; what its cells show goes to stdout as JSON."""

import json

import torch
from alexnet import AlexNet

from backsight.compat.torchember import emberTracker, torchEmber

torch.manual_seed(0)


def shown(df):
    """Return a table as plain data, NaN as null."""
    return {"columns": list(df.columns), "index": list(df.index), "rows": json.loads(df.to_json(orient="values"))}


cells = {}
model = AlexNet()
samp = (torch.rand(2, 3, 224, 224) - 1) * 2

etrack = emberTracker("testmodel")
for i in range(10):
    etrack + {"col1": i, "col2": i * 2, "col3": "hahahha"}
cells["file"] = etrack.log_path.read_text()
cells["track"] = shown(etrack.df)
etrack.log_path.unlink()
etrack["about_this_model"] = {"property1": 1, "property2": False, "property3": {"size": 100, "speed": 200}}
cells["about"] = etrack["about_this_model"]["property2"]

te = torchEmber(model)
armed = model
model = model.disarm()
cells["the same model"] = model is armed and "disarm" not in vars(model)
te.disarm()
te.rearm()

with torch.no_grad():
    truth = {"samp": [samp.mean().item(), samp.std().item(), samp.max().item(), samp.min().item()]}
    weight = model.features[0].weight
    truth["weight"] = [weight.mean().item(), weight.std().item(), weight.max().item(), weight.min().item()]

for _ in range(3):
    model(samp)
cells["snowballing"] = shown(te.t.df)

for _ in range(3):
    model(samp).mean().backward()
df = te.t.df
cells["gradients"] = shown(df[df["ttype"] == "weight_grad"])
cells["tree"] = te.mod_tree()
cells["log"] = te.mt_log
cells["stored"] = te.t[f"structure_{te.fname}"]
cells["latest"] = shown(te.t.latest_df)


@te.how_record_weight
def weight_stats(tensor):
    return {"num": tensor.numel(), "row_max": [row.max().item() for row in tensor]}


@te.how_record_in
def input_stats(tensor):
    return {"num": tensor.numel(), "row_min": [row.min().item() for row in tensor]}


@te.how_record_out
def output_stats(tensor):
    return {"num": tensor.numel(), "row_min": [row.min().item() for row in tensor]}


truth["row_min"] = [row.min().item() for row in samp]
truth["row_max"] = [row.max().item() for row in model.features[0].weight]
out = model(samp)
truth["out_row_min"] = [row.min().item() for row in out]
cells["own"] = shown(te.t.latest_df)
cells["truth"] = truth
print(json.dumps(cells))
