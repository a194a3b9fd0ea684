/* What is told to the host: lines on fd 3, which plughost-launcher's header lists. */
#ifndef PLUGHOST_REPORT_H
#define PLUGHOST_REPORT_H

enum { REPORT_FD = 3 };

void report(const char *line);

/* `fail STAGE ERRNO [WHAT]`, and the end. */
_Noreturn void fail(const char *stage, const char *what);

#endif
