"""Healthy training programs: methods with several losses, optimizers, copies or gradients of gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from healthy_nets import STEPS, Check, mlp
from torch import nn
from torch.func import functional_call

import backsight as bs


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


def deep_q_learning(check: Check) -> None:
    policy = mlp(4, 2)
    target = copy.deepcopy(policy)
    optimizer = torch.optim.AdamW(policy.parameters(), amsgrad=True)
    for _ in range(STEPS):
        state, after = torch.randn(5, 4), torch.randn(5, 4)
        value = policy(state).gather(1, torch.randint(2, (5, 1))).squeeze(1)
        with torch.no_grad():
            wanted = torch.randn(5) + 0.99 * target(after).max(1).values
        loss = F.smooth_l1_loss(value, wanted)
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        weights = target.state_dict()
        for name, weight in policy.state_dict().items():
            weights[name] = weight * 0.005 + weights[name] * 0.995
        target.load_state_dict(weights)


def deep_q_learning_that_detaches_its_target(check: Check) -> None:
    policy = mlp(4, 2)
    target = copy.deepcopy(policy)
    optimizer = torch.optim.Adam(policy.parameters())
    for _ in range(STEPS):
        wanted = torch.randn(5) + 0.99 * target(torch.randn(5, 4)).max(1).values.detach()
        loss = F.mse_loss(policy(torch.randn(5, 4))[:, 0], wanted)
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = mlp(4, 2), mlp(4, 1)


def actor_critic_with_one_optimizer(check: Check) -> None:
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        state = torch.randn(5, 4)
        value, policy = model.critic(state).squeeze(1), torch.distributions.Categorical(logits=model.actor(state))
        advantage = torch.randn(5) - value
        optimizer.zero_grad()
        actor_loss = -(policy.log_prob(policy.sample()) * advantage.detach()).mean()
        check(bs.audit(actor_loss))
        actor_loss.backward()
        critic_loss = advantage.pow(2).mean()
        check(bs.audit(critic_loss))
        critic_loss.backward()
        optimizer.step()


def critic_first_with_one_optimizer(check: Check) -> None:
    model = ActorCritic()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        state = torch.randn(5, 4)
        critic_loss = model.critic(state).pow(2).mean()
        check(bs.audit(critic_loss))
        optimizer.zero_grad()
        critic_loss.backward()
        optimizer.step()
        actor_loss = model.actor(state).pow(2).mean()
        check(bs.audit(actor_loss))
        optimizer.zero_grad()
        actor_loss.backward()
        optimizer.step()


class Agent:
    """One optimizer for two losses, each with a method of its own."""

    def __init__(self, check: Check) -> None:
        self.check, self.model = check, ActorCritic()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def improve_actor(self, state: torch.Tensor) -> None:
        advantage = (torch.randn(5, 1) - self.model.critic(state)).detach()
        loss = (self.model.actor(state) * advantage).mean()
        self.check(bs.audit(loss))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def improve_critic(self, state: torch.Tensor) -> None:
        loss = self.model.critic(state).pow(2).mean()
        self.check(bs.audit(loss))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def actor_critic_with_two_methods(check: Check) -> None:
    agent = Agent(check)
    for _ in range(STEPS):
        agent.improve_actor(torch.randn(5, 4))
        agent.improve_critic(torch.randn(5, 4))


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


def actor_critic_with_two_optimizers(check: Check) -> None:
    actor, critic = mlp(4, 2), mlp(6, 1)
    opt_actor, opt_critic = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(STEPS):
        state = torch.randn(5, 4)
        critic_loss = (critic(torch.cat([state, torch.randn(5, 2)], 1)) - torch.randn(5, 1)).pow(2).mean()
        check(bs.audit(critic_loss))
        opt_critic.zero_grad()
        critic_loss.backward()
        opt_critic.step()
        actor_loss = -critic(torch.cat([state, actor(state).tanh()], 1)).mean()
        check(bs.audit(actor_loss))
        opt_actor.zero_grad()
        actor_loss.backward()
        opt_actor.step()


def learning_to_learn(check: Check) -> None:
    model = mlp()
    outer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        x, y = torch.randn(5, 4), torch.randint(3, (5,))
        fast = dict(model.named_parameters())
        for _ in range(3):
            inner = F.cross_entropy(functional_call(model, fast, (x,)), y)
            check(bs.audit(inner))
            gradients = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), gradients, strict=True)}
        loss = F.cross_entropy(functional_call(model, fast, (x,)), y)
        check(bs.audit(loss))
        outer.zero_grad()
        loss.backward()
        outer.step()


def reptile(check: Check) -> None:
    model = mlp()
    outer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        learner = copy.deepcopy(model)
        inner = torch.optim.SGD(learner.parameters(), lr=0.1)
        for _ in range(2):
            loss = F.cross_entropy(learner(torch.randn(5, 4)), torch.randint(3, (5,)))
            check(bs.audit(loss))
            inner.zero_grad()
            loss.backward()
            inner.step()
        for p, q in zip(model.parameters(), learner.parameters(), strict=True):
            p.grad = p.detach() - q.detach()
        outer.step()


class SAM(torch.optim.Optimizer):
    def __init__(self, params: Any, rho: float = 0.05, **options: Any) -> None:
        super().__init__(params, dict(rho=rho, **options))
        self.base_optimizer = torch.optim.SGD(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["e"] = e = 0.05 * p.grad / (p.grad.norm() + 1e-12)
                p.add_(e)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.state[p]["e"])
        self.base_optimizer.step()
        self.zero_grad()


def sharpness_aware(check: Check) -> None:
    model = mlp()
    optimizer = SAM(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        x, y = torch.randn(5, 4), torch.randint(3, (5,))
        loss = F.cross_entropy(model(x), y)
        check(bs.audit(loss))
        loss.backward()
        optimizer.first_step()
        again = F.cross_entropy(model(x), y)
        check(bs.audit(again))
        again.backward()
        optimizer.second_step()


def physics_informed(check: Check, activation: Callable[[torch.Tensor], torch.Tensor] = torch.sin) -> None:
    first, last = nn.Linear(1, 8), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()])
    for _ in range(STEPS):
        x = torch.rand(6, 1, requires_grad=True)
        u = last(activation(first(x)))
        (slope,) = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
        (curvature,) = torch.autograd.grad(slope, x, torch.ones_like(u), create_graph=True)
        loss = (curvature + u).pow(2).mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def gradient(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def physics_informed_with_fixed_points(check: Check) -> None:
    first, last = nn.Linear(1, 8), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()])
    points = torch.linspace(0, 1, 6)[:, None].requires_grad_()
    for _ in range(STEPS):
        u = last(torch.sin(first(points)))
        loss = (gradient(gradient(u, points), points) + u).pow(2).mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def adversarial_training(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        x, y = torch.randn(5, 4).requires_grad_(), torch.randint(3, (5,))
        attack = F.cross_entropy(model(x), y)
        check(bs.audit(attack))
        attack.backward()
        adversarial = (x + 0.1 * x.grad.sign()).detach()
        loss = F.cross_entropy(model(adversarial), y)
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def projected_attack(check: Check) -> None:
    model = mlp().requires_grad_(False)
    x, y = torch.randn(5, 4), torch.randint(3, (5,))
    moved = x.clone().requires_grad_()
    for _ in range(STEPS):
        loss = F.cross_entropy(model(moved), y)
        check(bs.audit(loss))
        (direction,) = torch.autograd.grad(loss, moved)
        moved = (moved + 0.01 * direction.sign()).detach().requires_grad_()


def style_transfer(check: Check) -> None:
    features = mlp(12, 8).requires_grad_(False)
    image = torch.rand(1, 12).requires_grad_()
    optimizer = torch.optim.LBFGS([image], max_iter=3)

    def closure() -> torch.Tensor:
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        loss = features(image).pow(2).mean()
        check(bs.audit(loss))
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


def by_hand(check: Check) -> None:
    w, b = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    for _ in range(STEPS):
        loss = (torch.randn(5, 4) @ w + b).pow(2).mean()
        check(bs.audit(loss))
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
            w.grad, b.grad = None, None


def temperature_by_hand_beside_an_optimizer(check: Check) -> None:
    model, log_alpha = mlp(4, 2), torch.zeros((), requires_grad=True)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        loss = (log_alpha.exp() * model(torch.randn(5, 4))).pow(2).mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            log_alpha -= 0.01 * log_alpha.grad
            log_alpha.grad = None


def soft_actor_critic(check: Check) -> None:
    actor, critic, log_alpha = mlp(4, 2), mlp(6, 1), torch.zeros(1, requires_grad=True)
    opt_actor, opt_critic = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
    opt_alpha = torch.optim.Adam([log_alpha])
    for _ in range(STEPS):
        state = torch.randn(5, 4)
        q = critic(torch.cat([state, torch.randn(5, 2)], 1))
        critic_loss = (q - torch.randn(5, 1)).pow(2).mean()
        check(bs.audit(critic_loss))
        opt_critic.zero_grad()
        critic_loss.backward()
        opt_critic.step()
        for p in critic.parameters():
            p.requires_grad = False
        action = actor(state)
        actor_loss = (log_alpha.exp().detach() * action - critic(torch.cat([state, action], 1))).mean()
        check(bs.audit(actor_loss))
        opt_actor.zero_grad()
        actor_loss.backward()
        opt_actor.step()
        for p in critic.parameters():
            p.requires_grad = True
        alpha_loss = -(log_alpha.exp() * action.detach()).mean()
        check(bs.audit(alpha_loss))
        opt_alpha.zero_grad()
        alpha_loss.backward()
        opt_alpha.step()


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


class Trainer:
    """Models and optimizers in attributes, the audit deep inside."""

    def __init__(self, check: Check) -> None:
        self.check, self.parts = check, {"net": mlp(), "head": nn.Linear(3, 2)}
        groups = [{"params": part.parameters()} for part in self.parts.values()]
        self.optimizers = [torch.optim.Adam(groups)]

    def batches(self) -> Iterator[torch.Tensor]:
        for _ in range(STEPS):
            yield torch.randn(5, 4)

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts["head"](self.parts["net"](x)).pow(2).mean()

    def step(self, x: torch.Tensor) -> None:
        loss = self.loss(x)
        self.check(bs.audit(loss))
        loss.backward()
        self.optimizers[0].step()
        self.optimizers[0].zero_grad()


def trainer_object(check: Check) -> None:
    trainer = Trainer(check)
    for x in trainer.batches():
        trainer.step(x)


PROGRAMS = [
    f
    for f in list(globals().values())
    if callable(f) and getattr(f, "__module__", "") == __name__ and "check" in getattr(f, "__annotations__", ())
]
