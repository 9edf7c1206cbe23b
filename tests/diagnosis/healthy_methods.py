"""Healthy training programs: several losses, copies of a model, and gradients of gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from healthy import STEPS, Check, mlp, programs
from torch import nn
from torch.func import functional_call as call_with

import backsight as bs


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
            inner = F.cross_entropy(call_with(model, fast, (x,)), y)
            check(bs.audit(inner))
            gradients = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), gradients, strict=True)}
        loss = F.cross_entropy(call_with(model, fast, (x,)), y)
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


PROGRAMS = programs(globals())
