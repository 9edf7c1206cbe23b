"""Healthy training programs: models of which a step uses only a part, and methods that cut gradients on purpose."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from healthy import STEPS, Check, mlp, programs
from torch import nn

import backsight as bs


def mixture_of_experts(check: Check) -> None:
    router, experts = nn.Linear(4, 6), nn.ModuleList(mlp(4, 3) for _ in range(6))
    optimizer = torch.optim.Adam([*router.parameters(), *experts.parameters()])
    for _ in range(STEPS):
        x = torch.randn(3, 4)
        weight, chosen = router(x).softmax(-1).topk(1)
        out = torch.stack([experts[int(e)](row) * w for row, w, e in zip(x, weight, chosen, strict=True)])
        loss = F.cross_entropy(out, torch.randint(3, (3,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def stochastic_depth(check: Check) -> None:
    model = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))
    stem, head = nn.Linear(4, 8), nn.Linear(8, 3)
    optimizer = torch.optim.Adam([*stem.parameters(), *model.parameters(), *head.parameters()])
    for _ in range(2 * STEPS):
        h = stem(torch.randn(5, 4))
        for layer in model:
            if torch.rand(()) > 0.5:
                h = h + layer(h).relu()
        loss = F.cross_entropy(head(h), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def multi_task_with_alternating_heads(check: Check) -> None:
    trunk, heads = mlp(outputs=8), nn.ModuleDict({"a": nn.Linear(8, 2), "b": nn.Linear(8, 3)})
    optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()])
    for step in range(2 * STEPS):
        out = heads["ab"[step % 2]](trunk(torch.randn(5, 4)))
        loss = out.pow(2).mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def layers_that_join_one_by_one(check: Check) -> None:
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(STEPS))
    optimizer = torch.optim.Adam(layers.parameters())
    for depth in range(1, STEPS + 1):
        h = torch.randn(5, 4)
        for layer in list(layers)[:depth]:
            h = layer(h).relu()
        loss = h.mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def unused_experts_beside_a_detached_term(check: Check) -> None:
    router, experts = nn.Linear(4, 3), nn.ModuleList(mlp(4, 3) for _ in range(3))
    model = nn.ModuleDict({"router": router, "experts": experts})
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        x = torch.randn(5, 4)
        weight = model["router"](x).softmax(-1)
        chosen = int(weight.detach().mean(0).argmax())
        loss = F.cross_entropy(model["experts"][chosen](x) * weight[:, :1], torch.randint(3, (5,)))
        loss = loss + weight.detach().mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def vae(check: Check) -> None:
    encoder, decoder = mlp(4, 4), mlp(2, 4)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
    for _ in range(STEPS):
        x = torch.randn(5, 4)
        mean, log_var = encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (log_var / 2).exp()
        loss = F.mse_loss(decoder(z), x) - 0.5 * (1 + log_var - mean**2 - log_var.exp()).mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def distillation(check: Check) -> None:
    teacher, student = mlp(width=16).eval(), mlp()
    optimizer = torch.optim.Adam(student.parameters())
    for _ in range(STEPS):
        x = torch.randn(5, 4)
        with torch.inference_mode():
            wanted = teacher(x).softmax(-1)
        loss = F.kl_div(student(x).log_softmax(-1), wanted.clone(), reduction="batchmean")
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def self_supervised_with_a_momentum_encoder(check: Check) -> None:
    online, predictor = mlp(4, 8), mlp(8, 8)
    momentum = copy.deepcopy(online)
    for p in momentum.parameters():
        p.requires_grad = False
    optimizer = torch.optim.SGD([*online.parameters(), *predictor.parameters()], lr=0.1)
    for _ in range(STEPS):
        x, y = torch.randn(5, 4), torch.randn(5, 4)
        loss = -F.cosine_similarity(predictor(online(x)), momentum(y).detach()).mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for slow, fast in zip(momentum.parameters(), online.parameters(), strict=True):
            slow.data.mul_(0.99).add_(fast.data, alpha=0.01)


def stop_gradient_siamese(check: Check) -> None:
    encoder, predictor = mlp(4, 8), mlp(8, 8)
    optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.1)
    for _ in range(STEPS):
        a, b = encoder(torch.randn(5, 4)), encoder(torch.randn(5, 4))
        loss = -(F.cosine_similarity(predictor(a), b.detach()) + F.cosine_similarity(predictor(b), a.detach())).mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def straight_through_codebook(check: Check) -> None:
    encoder, codebook, decoder = mlp(4, 2), nn.Embedding(8, 2), mlp(2, 4)
    optimizer = torch.optim.Adam([*encoder.parameters(), *codebook.parameters(), *decoder.parameters()])
    for _ in range(STEPS):
        x = torch.randn(5, 4)
        z = encoder(x)
        code = codebook(torch.cdist(z, codebook.weight).argmin(1))
        loss = F.mse_loss(decoder(z + (code - z).detach()), x) + F.mse_loss(code, z.detach())
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def gan(check: Check) -> None:
    generator, critic = mlp(4, 6), mlp(6, 1)
    opt_g, opt_d = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(STEPS):
        real, z = torch.randn(5, 6), torch.randn(5, 4)
        opt_d.zero_grad()
        loss_real = F.softplus(-critic(real)).mean()
        check(bs.audit(loss_real))
        loss_real.backward()
        fake = generator(z)
        loss_fake = F.softplus(critic(fake.detach())).mean()
        check(bs.audit(loss_fake))
        loss_fake.backward()
        opt_d.step()
        opt_g.zero_grad()
        loss = F.softplus(-critic(fake)).mean()
        check(bs.audit(loss))
        loss.backward()
        opt_g.step()


def gan_whose_generator_goes_first(check: Check) -> None:
    generator, critic = mlp(4, 6), mlp(6, 1)
    opt_g, opt_d = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(STEPS):
        fake = generator(torch.randn(5, 4))
        g_loss = F.softplus(-critic(fake)).mean()
        check(bs.audit(g_loss))
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
        d_loss = (F.softplus(-critic(torch.randn(5, 6))) + F.softplus(critic(fake.detach()))).mean()
        check(bs.audit(d_loss))
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()


def gan_with_a_gradient_penalty(check: Check) -> None:
    generator, critic = mlp(4, 6), mlp(6, 1)
    opt_g, opt_d = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())

    def penalty(real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        mixed = torch.lerp(real, fake, torch.rand(5, 1)).requires_grad_()
        (gradient,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        return (gradient.norm(dim=1) - 1).pow(2).mean()

    for step in range(2 * STEPS):
        real, fake = torch.randn(5, 6), generator(torch.randn(5, 4))
        d_loss = critic(fake.detach()).mean() - critic(real).mean() + 10 * penalty(real, fake.detach())
        check(bs.audit(d_loss))
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()
        if step % 2:
            g_loss = -critic(fake).mean()
            check(bs.audit(g_loss))
            opt_g.zero_grad()
            g_loss.backward()
            opt_g.step()


def gan_that_switches_requires_grad(check: Check) -> None:
    generator, critic = mlp(4, 6), mlp(6, 1)
    opt_g, opt_d = torch.optim.RMSprop(generator.parameters()), torch.optim.RMSprop(critic.parameters())
    for _ in range(STEPS):
        critic.requires_grad_(True)
        for _ in range(2):
            d_loss = critic(generator(torch.randn(5, 4)).detach()).mean() - critic(torch.randn(5, 6)).mean()
            check(bs.audit(d_loss))
            opt_d.zero_grad()
            d_loss.backward()
            opt_d.step()
            with torch.no_grad():
                for p in critic.parameters():
                    p.clamp_(-0.1, 0.1)
        critic.requires_grad_(False)
        g_loss = -critic(generator(torch.randn(5, 4))).mean()
        check(bs.audit(g_loss))
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()


def adversarial_autoencoder(check: Check) -> None:
    encoder, decoder, critic = mlp(4, 2), mlp(2, 4), mlp(2, 1)
    opt_ae = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
    opt_g, opt_d = torch.optim.Adam(encoder.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(STEPS):
        x = torch.randn(5, 4)
        loss = F.mse_loss(decoder(encoder(x)), x)
        check(bs.audit(loss))
        opt_ae.zero_grad()
        loss.backward()
        opt_ae.step()
        d_loss = F.softplus(critic(encoder(x).detach())).mean() + F.softplus(-critic(torch.randn(5, 2))).mean()
        check(bs.audit(d_loss))
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()
        g_loss = F.softplus(-critic(encoder(x))).mean()
        check(bs.audit(g_loss))
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()


PROGRAMS = programs(globals())
