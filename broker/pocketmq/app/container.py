"""A broker in a container: its first secret, and the command lines that start it.

The image sets POCKETMQ_IMAGE to its name. POCKETMQ_ADMIN_SECRET is the secret of the user admin, or
POCKETMQ_ADMIN_USER, who is created in a store without users.
"""

from collections.abc import MutableMapping
from typing import Final, NamedTuple

from pocketmq.model.errors import IllegalConfig

IMAGE: Final = "POCKETMQ_IMAGE"
USER: Final = "POCKETMQ_ADMIN_USER"
SECRET: Final = "POCKETMQ_ADMIN_SECRET"
SECRET_FILE: Final = "POCKETMQ_ADMIN_SECRET_FILE"
FIRST_ADMIN: Final = "admin"
STORE: Final = "/var/lib/pocketmq"
"""Volume of the image."""


class Container(NamedTuple):
    """Secret and image name from the environment of a container.

    image    name of the image; "" outside of a container
    secret   secret of the first admin; "" if none was given
    admin    access key of the first admin
    """

    image: str = ""
    secret: str = ""
    admin: str = FIRST_ADMIN

    def ways_in(self) -> str:
        """Returns the command lines that start the image with a user, or open to all callers."""
        run = f"docker run -p 8081:8081 -v pocketmq:{STORE}"
        return (
            f"\n  with the user {self.admin}:  {run} -e {SECRET}=CHOOSE-ONE {self.image}"
            f"\n  open to all callers:  {run} -e POCKETMQ_INSECURE=1 {self.image}"
        )


def container_of(environment: MutableMapping[str, str]) -> Container:
    """Reads the environment of a container, and removes the secret from it.

    Errors   IllegalConfig: the secret is given twice
    """
    secret = environment.pop(SECRET, "")
    if secret and environment.get(SECRET_FILE):
        why = f"{SECRET_FILE} is set as well; leave one of them out"
        raise IllegalConfig(field=SECRET, why=why)
    admin = environment.get(USER, "") or FIRST_ADMIN
    return Container(environment.get(IMAGE, ""), secret, admin)
