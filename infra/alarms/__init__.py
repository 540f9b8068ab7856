"""The alarms of an installation. Reading order: spec, specs, parts_specs (the table), settings (its knobs), plan, construct."""
