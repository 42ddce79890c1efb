"""The web console: pages for a running broker, and for a store directory.

The console is a client. It calls a broker through `pocketmq.client`, and reads a directory through
`pocketmq.tools`, which have all rules about messages. It needs the extra `console` (starlette,
jinja2, uvicorn). Pages contain no inline scripts or styles. They load those in `assets`, and
nothing from other hosts.

    server       listens and serves        application   routes, errors
    protection   headers, hosts, origins   visitors      sessions of users
    web          what a page is given      pages/        one module for each part of the console
    texts        numbers, times, commands  plots         geometry of SVG pictures
    listing      lists, kept answers       offers        forms that a visitor may use
    working      work off the event loop   __main__      the process of a serving broker
"""
