"""Every type that a user's declaration needs; `from workloads import ...` finds them here."""

from golden.chain import Layer
from golden.definition import Definition
from golden.draw import Draw
from golden.geometry import Conv, GeometryError
from golden.profiles import Profile
from golden.specs import Role, Tensors, TensorSpec
from golden.terms import Sums
from kernels.choice import Account, Use
from kernels.cost import Work
from kernels.plan import Limits, PlanError, Tile
from kernels.tensor.plan import Capacities, TilingError
from kernels.windows import Window
from workloads.base import FaultModel, Frame, Kernel, TileProgram, Workload
from workloads.form import Convolution, Form, Loading, Part, in_order, one_step, whole_image
from workloads.packing import Packing, chain_packing
from workloads.tensor_level import Launch, TensorLevel, TensorProgram, constants

__all__ = [
    "Account",
    "Capacities",
    "Conv",
    "Convolution",
    "Definition",
    "Draw",
    "FaultModel",
    "Form",
    "Frame",
    "GeometryError",
    "Kernel",
    "Launch",
    "Layer",
    "Limits",
    "Loading",
    "Packing",
    "Part",
    "PlanError",
    "Profile",
    "Role",
    "Sums",
    "TensorLevel",
    "TensorProgram",
    "TensorSpec",
    "Tensors",
    "Tile",
    "TileProgram",
    "TilingError",
    "Use",
    "Window",
    "Work",
    "Workload",
    "chain_packing",
    "constants",
    "in_order",
    "one_step",
    "whole_image",
]
