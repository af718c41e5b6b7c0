"""The tools with which agents look at jobs and make their own: typed functions with JSON Schemas (document 004)."""

from rota.operations.tools.makers import maker_of as maker_of
from rota.operations.tools.makers import named_maker as named_maker
from rota.operations.tools.makers import project_declares as project_declares
from rota.operations.tools.toolbox import Tool as Tool
from rota.operations.tools.toolbox import Toolbox as Toolbox
from rota.operations.tools.toolbox import say_error as say_error
