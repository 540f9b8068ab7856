"""Files of Airflow: read as syntax and never run, and turned into pipelines."""
