"""The options, declared once.

Each group is a dataclass whose fields are annotated for Typer, or are groups themselves.
``takes(ModelOptions, ...)`` turns a function of groups into a command that has every field of every group
as an option of its own.
"""

from attnprobe.cli.options.model import AnyModelOptions, AnyModelsOptions, Keep, ModelOptions
from attnprobe.cli.options.output import (
    LayerOptions,
    OutputOptions,
    PictureOptions,
    ResumeOptions,
    pictures_in,
)
from attnprobe.cli.options.panels import LABEL_COLUMN, MODEL, OUTPUT, TASK, TEXT
from attnprobe.cli.options.survey import (
    GoldOptions,
    LinkOptions,
    RoleGoldOptions,
    RoleOptions,
    SurveyOptions,
    TargetOptions,
    WeightOptions,
)
from attnprobe.cli.options.taking import takes
from attnprobe.cli.options.task import ImportanceMethod, MetricOptions, TaskOptions
from attnprobe.cli.options.text import (
    BatchOptions,
    DataOptions,
    FrequencyOptions,
    HubOptions,
    ReadingOptions,
    TextOptions,
    TokenOptions,
)

__all__ = [
    "LABEL_COLUMN",
    "MODEL",
    "OUTPUT",
    "TASK",
    "TEXT",
    "AnyModelOptions",
    "AnyModelsOptions",
    "BatchOptions",
    "DataOptions",
    "FrequencyOptions",
    "GoldOptions",
    "HubOptions",
    "ImportanceMethod",
    "Keep",
    "LayerOptions",
    "LinkOptions",
    "MetricOptions",
    "ModelOptions",
    "OutputOptions",
    "PictureOptions",
    "ReadingOptions",
    "ResumeOptions",
    "RoleGoldOptions",
    "RoleOptions",
    "SurveyOptions",
    "TargetOptions",
    "TaskOptions",
    "TextOptions",
    "TokenOptions",
    "WeightOptions",
    "pictures_in",
    "takes",
]
