"""The types of values that limit what runs: pools, budgets, prices and retries."""

from decimal import Decimal
from typing import Annotated

from pydantic import PlainValidator as Reads
from pydantic import WithJsonSchema as Schema

from rota.declare import budgets, pools, retries
from rota.declare.shapes import DURATION, GRACE, JITTER, POOL, words_of
from rota.declare.values import Text
from rota.model.budget import Exceeded, Per, Price, Unit
from rota.model.spec import Draw, RepeatedFailure, Retry

_COST = {"type": "integer", "minimum": 1, "maximum": pools.CAPACITY}
_DRAWS = {"type": "object", "propertyNames": POOL, "additionalProperties": _COST}
Capacities = Annotated[
    dict[str, int],
    Reads(pools.read_capacities),
    Schema(
        {
            "type": "object",
            "propertyNames": POOL,
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": pools.CAPACITY},
        }
    ),
]
Draws = Annotated[
    dict[pools.KeyPath, Draw],
    Reads(pools.read_draws),
    Schema({"anyOf": [{"type": "array", "items": {"anyOf": [POOL, _DRAWS]}}, _DRAWS]}),
]

_AMOUNT = {"type": "number", "minimum": 0}
_ACCOUNT = {
    "type": "object",
    "properties": {
        **{str(unit): {"type": "number", "exclusiveMinimum": 0} for unit in Unit},
        "per": words_of(Per),
        "policy": words_of(Exceeded),
        "estimate": _AMOUNT,
        "timezone": {"type": "string"},
    },
    "required": ["per"],
    "oneOf": [{"required": [str(unit)]} for unit in Unit],
    "additionalProperties": False,
}
_PRICE = {
    "type": "object",
    "properties": {"input": _AMOUNT, "output": _AMOUNT, "cached_input": _AMOUNT},
    "required": ["input", "output"],
    "additionalProperties": False,
}
AccountName = Annotated[str, Reads(budgets.read_name), Schema(POOL)]
AccountEntry = Annotated[budgets.WrittenAccount, Reads(budgets.read_account), Schema(_ACCOUNT)]
PriceEntry = Annotated[Price, Reads(budgets.read_price), Schema(_PRICE)]
Budgets = Annotated[
    dict[AccountName, AccountEntry],
    Schema({"type": "object", "propertyNames": POOL, "additionalProperties": _ACCOUNT}),
]
Prices = Annotated[dict[Text, PriceEntry], Schema({"type": "object", "additionalProperties": _PRICE})]
Accounts = Annotated[
    dict[budgets.KeyPath, str],
    Reads(budgets.read_names),
    Schema({"anyOf": [POOL, {"type": "array", "items": POOL}]}),
]
Estimates = Annotated[
    dict[str, Decimal],
    Reads(budgets.read_estimates),
    Schema({"anyOf": [_AMOUNT, {"type": "object", "propertyNames": POOL, "additionalProperties": _AMOUNT}]}),
]

_RETRY = {
    "type": "object",
    "properties": {
        "max_attempts": {"type": "integer", "minimum": 1, "maximum": retries.ATTEMPTS},
        "backoff": GRACE,
        "factor": {"type": "number", "minimum": 1, "maximum": retries.FACTOR},
        "max": DURATION,
        "jitter": JITTER,
    },
    "additionalProperties": False,
}
_REPEATED = {
    "type": "object",
    "properties": {
        "after": {"type": "integer", "minimum": 1, "maximum": retries.FAILURES},
        "backoff_max": DURATION,
    },
    "additionalProperties": False,
}
RetryPolicy = Annotated[Retry, Reads(retries.read_retry), Schema({"anyOf": [{"type": "boolean"}, _RETRY]})]
RepeatedFailurePolicy = Annotated[
    RepeatedFailure | None,
    Reads(retries.read_repeated_failure),
    Schema({"anyOf": [{"type": "boolean"}, _REPEATED]}),
]
