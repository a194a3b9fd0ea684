/* Paths that lead where they say: no symlink is followed, in none of their parts. */
#ifndef PLUGHOST_REAL_PATH_H
#define PLUGHOST_REAL_PATH_H

/* A descriptor that stands for the place (O_PATH), or -1 with errno; ELOOP when there is a symlink on the way. */
int open_real(const char *path);

/* Whether the file or folder at the path is `DEV:INO`: 0 when it is, or -1 with errno. */
int is_same(const char *path, const char *identity);

#endif
