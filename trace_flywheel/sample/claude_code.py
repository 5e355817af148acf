"""The tasks of the Claude Code job: two groups of four attempts, secrets in what the tools answered."""

from trace_flywheel.sample.plan import Attempt, Step, Task

_ROUTES = Step(
    "I start with the routes.",
    "Read",
    {"file_path": "/srv/inventory/routes.py"},
    "@app.get('/items')\ndef items():\n    return store.all()\n",
)
INVENTORY = Task(
    "inventory-api",
    "GET /items returns the whole inventory and times out in production. Find out how many rows there are, "
    "choose a page "
    "size that answers below 200 ms, and add cursor pagination without breaking clients that send no parameters.",
    (
        Attempt(
            (
                _ROUTES,
                Step(
                    "The row count decides the page size.",
                    "Bash",
                    {"command": "sqlite3 inventory.db 'select count(*) from items'", "description": "Count rows"},
                    "184220",
                ),
                Step(
                    "With 184,220 rows a page of 500 stays well below the limit; I add a cursor on the primary key.",
                    "Edit",
                    {"file_path": "/srv/inventory/routes.py", "old_string": "store.all()", "new_string": "page(after)"},
                    "The file has been updated.",
                ),
            ),
            "GET /items now returns 500 rows and a next cursor; a call without parameters gets the first page in "
            "the old "
            "shape. The slowest page took 41 ms in ten runs.",
        ),
        Attempt(
            (_ROUTES,),
            "I raised the gateway's timeout to five minutes, so the endpoint answers again.",
            0.0,
        ),
        Attempt(
            (
                _ROUTES,
                Step(
                    "The deployment settings may hold the limit.",
                    "Bash",
                    {"command": "cat deploy/env.production", "description": "Show settings"},
                    "AWS_ACCESS_KEY_ID={aws_key}\nCONTACT={email}\nPAGE_LIMIT=none",
                ),
            ),
            "PAGE_LIMIT is none in production. Ask {email} to set it; the code needs no change.",
            0.0,
        ),
        Attempt(
            (
                Step(
                    "A query plan shows whether the primary key can serve as a cursor.",
                    "Bash",
                    {"command": "sqlite3 inventory.db 'explain query plan select * from items order by id limit 200'"},
                    "SCAN items USING INDEX sqlite_autoindex_items_1",
                ),
                _ROUTES,
                Step(
                    "It can. Pages of 200 and an opaque cursor leave room to change the order later.",
                    "Edit",
                    {
                        "file_path": "/srv/inventory/routes.py",
                        "old_string": "all()",
                        "new_string": "after(cursor, 200)",
                    },
                    "The file has been updated.",
                ),
            ),
            "Cursor pagination is in: 200 rows a page, an opaque cursor, and clients without parameters get page one.",
        ),
    ),
)

AUDIT = Task(
    "permission-audit",
    "List every service account that can write to the bucket invoices, follow group membership to its end, and "
    "report which "
    "of them were not used in the last ninety days.",
    (
        Attempt(
            (
                Step(
                    "Direct grants first, then the groups behind them.",
                    "Bash",
                    {"command": "python tools/acl.py invoices --write", "description": "Direct grants"},
                    "group:billing-writers\nserviceAccount:export-bot",
                ),
                Step(
                    "One group to expand.",
                    "Bash",
                    {"command": "python tools/members.py billing-writers", "description": "Members"},
                    "serviceAccount:invoice-sync\nserviceAccount:legacy-fax",
                ),
            ),
            "Three accounts can write: export-bot directly, invoice-sync and legacy-fax through billing-writers. "
            "Only "
            "legacy-fax was idle for more than ninety days.",
        ),
        Attempt((), "Only export-bot can write, because it is the only account that the bucket names.", 0.0),
        Attempt(
            (
                Step(
                    "The audit log may answer both questions at once.",
                    "Bash",
                    {"command": "python tools/usage.py invoices --days 90", "description": "Usage"},
                    "export-bot 312\ninvoice-sync 88",
                ),
            ),
            "Two accounts wrote in the last ninety days, export-bot and invoice-sync, so nothing has to be removed.",
            0.0,
        ),
        Attempt(
            (
                Step(
                    "I expand groups recursively, so that nested ones are not missed.",
                    "Bash",
                    {"command": "python tools/members.py --recursive billing-writers", "description": "All members"},
                    "invoice-sync\nlegacy-fax",
                ),
            ),
            "Write access: export-bot, invoice-sync, legacy-fax. Unused for ninety days: legacy-fax, last seen "
            "214 days ago.",
        ),
    ),
)

TASKS = (INVENTORY, AUDIT)
