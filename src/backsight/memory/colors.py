"""The colours of the kinds, in the light and in the dark; told apart by those who see no red or green."""

from __future__ import annotations

from backsight.memory.ledger import Kind

LIGHT: dict[Kind, str] = {
    "parameters": "#3b5b92",
    "optimizer state": "#7d9fd0",
    "inputs": "#9aa3ad",
    "other": "#c9ced6",
    "gradients": "#2a9d8f",
    "saved for backward": "#e9b44c",
    "temporaries": "#d1603d",
}

DARK: dict[Kind, str] = {
    "parameters": "#5b82c9",
    "optimizer state": "#8fb0e3",
    "inputs": "#8a94a1",
    "other": "#5d6673",
    "gradients": "#3fc1b0",
    "saved for backward": "#f0c465",
    "temporaries": "#e87a55",
}
