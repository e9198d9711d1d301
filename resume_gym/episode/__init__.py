"""What an episode is made of: task, document, tools, session, rewards and the drawing of its page.

Modules of this package import only `support`, so a session never imports a judge: its caller passes
the verdict. The one exception is `feedback`, whose remarks come from the rules of `judges`.
"""
