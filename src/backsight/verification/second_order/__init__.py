"""`verify_second_order`: is the derivative of each backward right?"""

from backsight.verification.second_order.verify_second_order import verify_second_order

__all__ = ["verify_second_order"]
