"""Call the job, watch its limits, settle its run. Read executor, perform, settle; ahead can be skipped."""
