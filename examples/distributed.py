"""Train the digits on several processes, by DDP or FSDP2, and record them as one run.

    torchrun --standalone --nproc-per-node 4 examples/distributed.py               # DDP: every rank holds all weights
    torchrun --standalone --nproc-per-node 4 examples/distributed.py --fsdp        # FSDP2: every rank holds its shards
    torchrun --standalone --nproc-per-node 4 examples/distributed.py --release     # gradients are freed in backward
    torchrun --standalone --nproc-per-node 4 examples/distributed.py --kill 2      # rank 2 is killed in the middle

Every rank writes into a folder of its own below `runs/distributed`, and all of them are read as one run:
`backsight runs show runs/distributed`, `backsight view runs`. docs/distributed.md tells what to see there.
"""

import argparse
import os
import signal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from digits import DigitNet, load_data
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import backsight as bs

BATCH = 32


def sharded(net):
    """FSDP2: parameters become shards in place, module by module."""
    for module in (net.conv1, net.conv2, net.head):
        fully_shard(module)
    return fully_shard(net)


def is_to_die(args, step):
    """Whether this is the rank and the step to be killed at, in the first attempt of `torchrun --max-restarts`."""
    first_attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    return first_attempt and (dist.get_rank(), step) == (args.kill, args.at)


def train(model, loader, optimizer, rec, args):
    for epoch in range(args.epochs):
        loader.sampler.set_epoch(epoch)  # else every epoch has the order of the first
        for images, labels in loader:
            if is_to_die(args, rec.steps):
                os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does it to whoever takes the last of the memory
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            rec.mark(epoch=epoch, loss=loss)  # the loss of this rank's part of the batch
            optimizer.step()
            optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}  loss of rank 0 {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fsdp", action="store_true", help="FSDP2 instead of DDP")
    parser.add_argument("--release", action="store_true", help="step the optimizer within the backward pass")
    parser.add_argument("--into", default="runs/distributed", metavar="RUN", help="the folder of the recording")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--kill", type=int, metavar="RANK", help="kill this rank ...")
    parser.add_argument("--at", type=int, default=20, metavar="STEP", help="... at this step")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)  # the same weights on all ranks
    net = DigitNet()
    model = sharded(net) if args.fsdp else DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    if args.release:  # DDP averages gradients after the hooks on them have run: release steps in its communication hook
        bs.release(optimizer) if args.fsdp else bs.release(optimizer, ddp=model)

    train_set, _ = load_data()
    loader = DataLoader(train_set, batch_size=BATCH, sampler=DistributedSampler(train_set), drop_last=True)
    with bs.record(net, optimizer, run=args.into) as rec:
        train(model, loader, optimizer, rec, args)
    dist.barrier()  # now all of the run is on the disk
    if dist.get_rank() == 0:
        print(f"recorded: backsight runs show {rec.run}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
