"""Textual style sheet of the game; narrow terminals show one pane at a time."""

CSS = """
Screen { layout: vertical; }
#meters { height: 1; padding: 0 1; background: $panel; }
#panes { height: 1fr; }
#page, #given, #turn { border: round $foreground 30%; padding: 0 1; }
#page, #given, #turn, .fields TextField, .fields .number {
  border-title-color: $foreground; border-subtitle-color: $foreground; background: $background;
}
#page:focus, #given:focus, #turn:focus { border: round $primary; }
#page { width: 2fr; }
#side { width: 1fr; }
#given { height: 1fr; }
#turn { height: 1fr; }
#tabs { display: none; }
Tabs { height: 1; }
Tabs Underline { display: none; }
Tabs Tab { height: 1; }
Tabs Tab.-active { text-style: bold reverse; }

.-narrow #tabs { display: block; }
.-narrow #page, .-narrow #given, .-narrow #turn { border: none; display: none; height: 1fr; }
.-narrow #page, .-narrow #side { width: 1fr; }
.-narrow #side { display: none; }
.-narrow .page #page, .-narrow .given #given, .-narrow .turn #turn { display: block; }
.-narrow .given #side, .-narrow .turn #side { display: block; }

#form { height: auto; padding: 0 1; }
#tools { height: auto; }
#tools TabPane { padding: 0; }
#tools.one ContentTabs { display: none; }
.fields { height: 5; }
.fields TextField { width: 1fr; height: 100%; border: round $foreground 30%; padding: 0 1; }
.fields TextField:focus { border: round $primary; }
.fields TextField.missing { border: round $error; }
.fields .number { width: 11; height: 3; border: round $foreground 30%; }
.fields .number:focus { border: round $primary; }
#status { height: auto; max-height: 2; color: $text-muted; }
#status.good { color: $text-success; }
#status.bad { color: $text-error; }
#buttons { height: 1; }
Button { min-width: 1; width: auto; margin-right: 1; }
TextArea, VerticalScroll { scrollbar-size-vertical: 1; }
.-narrow .fields { height: 4; }

ModalScreen { align: center middle; }
.dialog { width: 90%; max-width: 96; height: auto; max-height: 100%; padding: 0 1; }
.dialog { border: round $primary; background: $surface; border-title-color: $foreground; }
.dialog Static { height: auto; }
.-narrow .dialog { width: 100%; }
.choices { height: 1; margin: 1 0; }
"""
