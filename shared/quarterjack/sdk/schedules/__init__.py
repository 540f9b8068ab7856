"""What an owner does with schedules: ``changes``, ``reading`` and ``filters``, ``bulk``, ``forecast``, and ``declared`` ones."""
