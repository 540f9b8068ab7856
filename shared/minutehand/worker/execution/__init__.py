"""Call the job, watch its limits, settle its run. Read executor, perform, settle, after_end; ahead can be skipped."""
