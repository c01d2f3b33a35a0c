// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Translation of libyaml's problems.  libyaml names what its grammar missed; the table turns the
 * frequent ones into what the writer most likely did.
 */
#include "text/yaml_problem.h"

#include <string.h>
#include <yaml.h>

enum problem_place { AT_PROBLEM, AT_CONTEXT };

struct problem_text {
    const char *problem; /* start of libyaml's text */
    const char *context; /* start of its context, or NULL for any */
    enum problem_place place;
    const char *message, *hint;
};

static const struct problem_text problem_texts[] = {
    {"found unexpected end of stream", "while scanning a quoted scalar", AT_CONTEXT,
     "the quote is never closed", "close it, or drop it"},
    {"found unexpected document indicator", "while scanning a quoted scalar", AT_CONTEXT,
     "the quote is never closed", "close it, or drop it"},
    {"found unknown escape character", NULL, AT_PROBLEM, "unknown escape after a backslash",
     "use single quotes for a text with backslashes"},
    {"found character that cannot start any token", NULL, AT_PROBLEM,
     "this character cannot start a value", "put the text in quotes"},
    {"mapping values are not allowed", NULL, AT_PROBLEM, "unexpected ':'",
     "check the indentation, or put a text that holds ': ' in quotes"},
    {"block sequence entries are not allowed", NULL, AT_PROBLEM, "unexpected '-'",
     "start the list on a line of its own"},
    {"could not find expected ':'", NULL, AT_CONTEXT, "a key without ':'",
     "write 'key: value', with a blank after the colon"},
    {"did not find expected key", NULL, AT_PROBLEM, "this does not line up with the mapping above",
     "members of one mapping have the same indentation"},
    {"did not find expected '-' indicator", NULL, AT_PROBLEM,
     "this does not line up with the list above", "items of one list have the same indentation"},
    {"did not find expected ',' or ']'", NULL, AT_CONTEXT, "the list opened here is not closed",
     "separate items by ',' and end with ']'"},
    {"did not find expected ',' or '}'", NULL, AT_CONTEXT, "the mapping opened here is not closed",
     "separate members by ',' and end with '}'"},
    {"did not find expected node content", NULL, AT_PROBLEM, "a value is missing here", ""},
    {"did not find expected <document start>", NULL, AT_PROBLEM,
     "text after the end of the document", "a file holds one mapping"},
    {"found unknown directive name", NULL, AT_CONTEXT, "directives (%) are not used here",
     "remove the line, or quote the text"},
    {"found a tab character", NULL, AT_PROBLEM, "tab used as indentation", "indent with blanks"},
    {"while scanning an anchor", NULL, AT_PROBLEM, "anchors (&) are not used here", ""},
};

/* libyaml's place: its marks count lines and columns from 0. */
static struct place place_of(const struct source *source, const yaml_mark_t *mark) {
    return (struct place){source, (long)mark->line + 1, (long)mark->column + 1, 1};
}

static bool starts(const char *text, const char *with) {
    return text && strncmp(text, with, strlen(with)) == 0;
}

static bool is_tab(const struct place *place) {
    const char *line;
    size_t size;
    if (!source_line(place->source, place->line, &line, &size))
        return false;
    size_t at = 0;
    for (long column = 1; column < place->column && at < size; column++) {
        unsigned long code;
        const size_t step = source_character(line + at, size - at, &code);
        at += step ? step : 1;
    }
    return at < size && line[at] == '\t';
}

static enum mosaic_status report_grammar(const yaml_parser_t *parser, const struct source *source,
                                         struct diag_list *diags) {
    const struct place problem = place_of(source, &parser->problem_mark);
    if (is_tab(&problem)) {
        (void)diag_error(diags, &problem, "tab where blanks are due");
        diag_hint(diags, "separate and indent with blanks");
        return MOSAIC_BAD_INPUT;
    }
    for (size_t i = 0; i < sizeof problem_texts / sizeof problem_texts[0]; i++) {
        const struct problem_text *text = &problem_texts[i];
        if (!starts(parser->problem, text->problem) ||
            (text->context && !starts(parser->context, text->context)))
            continue;
        const struct place context = place_of(source, &parser->context_mark);
        const bool at_context = text->place == AT_CONTEXT && parser->context;
        (void)diag_error(diags, at_context ? &context : &problem, "%s", text->message);
        if (text->hint[0])
            diag_hint(diags, "%s", text->hint);
        return MOSAIC_BAD_INPUT;
    }
    return diag_error(diags, &problem, "not valid YAML: %s%s%s",
                      parser->problem ? parser->problem : "unreadable", parser->context ? " " : "",
                      parser->context ? parser->context : "");
}

enum mosaic_status yaml_problem_report(const struct yaml_parser_s *parser,
                                       const struct source *source, struct diag_list *diags) {
    switch (parser->error) {
    case YAML_MEMORY_ERROR:
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    case YAML_READER_ERROR: {
        const struct place place = source_place(source, parser->problem_offset, 1);
        return diag_error(diags, &place, "not valid text: %s",
                          parser->problem ? parser->problem : "unreadable");
    }
    case YAML_NO_ERROR:
    case YAML_SCANNER_ERROR:
    case YAML_PARSER_ERROR:
    case YAML_COMPOSER_ERROR:
    case YAML_WRITER_ERROR:
    case YAML_EMITTER_ERROR:
        break;
    }
    return report_grammar(parser, source, diags);
}
