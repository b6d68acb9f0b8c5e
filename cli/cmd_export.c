/* cmd_export.c -- `ptxmm export DIR`: what a foreign runtime needs to launch the kernels itself. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "manifest.h"
#include "session.h"
#include "text.h"

struct export {
    const struct options *options;
    const char *folder;
    char ptx_folder[2200];
    bool have_ptx;
    json_t *kernels;
    int64_t cubins, texts, bytes;
};

/* Writes a file under another name first, so that it appears whole or not at all. */
static bool write_file(const struct export *e, const char *name, const void *bytes, size_t size)
{
    char *path = NULL, *temporary = NULL;
    bool fine = asprintf(&path, "%s/%s", e->folder, name) >= 0 &&
                asprintf(&temporary, "%s/.%s.%ld", e->folder, name, (long)getpid()) >= 0;
    FILE *f = fine ? fopen(temporary, "wb") : NULL;
    fine = f && fwrite(bytes, 1, size, f) == size;
    int why = errno;
    if (f && fclose(f) && fine) {
        fine = false;
        why = errno;
    }
    if (fine && rename(temporary, path)) {
        fine = false;
        why = errno;
    }
    if (!fine) {
        if (f)
            unlink(temporary);
        complain(e->options, "%s/%s cannot be written: %s", e->folder, name, strerror(why));
    }
    free(path);
    free(temporary);
    return fine;
}

/* The PTX of a kernel, NULL if there is none or it is empty. The caller frees it. */
static char *read_ptx(const struct export *e, const char *name, size_t *size)
{
    char *path = NULL;
    if (!e->have_ptx || asprintf(&path, "%s/%s.ptx", e->ptx_folder, name) < 0)
        return NULL;
    char *text = text_read(path, size);
    free(path);
    if (text && !*size) {
        free(text);
        text = NULL;
    }
    return text;
}

static bool export_kernel(struct export *e, size_t index)
{
    const struct ptxmm_kernel_info *k = ptxmm_kernel(index);
    struct ptxmm_image image;
    struct ptxmm_error error;
    if (ptxmm_kernel_image(index, &image, &error)) {
        complain(e->options, "%s", error.text);
        return false;
    }
    char cubin[256], ptx[256];
    snprintf(cubin, sizeof cubin, "%s.cubin", k->name);
    snprintf(ptx, sizeof ptx, "%s.ptx", k->name);
    if (!write_file(e, cubin, image.bytes, image.size))
        return false;
    e->cubins++;
    e->bytes += (int64_t)image.size;

    json_t *entry = manifest_kernel(k);
    json_object_set_new(entry, "cubin",
                        json_pack("{s:s, s:I, s:s}", "file", cubin, "bytes", (json_int_t)image.size,
                                  "sha256", image.sha256));
    size_t size = 0;
    char *text = read_ptx(e, k->name, &size);
    const bool fine = !text || write_file(e, ptx, text, size);
    json_object_set_new(entry, "ptx",
                        text ? json_pack("{s:s, s:I}", "file", ptx, "bytes", (json_int_t)size)
                             : json_null());
    e->texts += text != NULL;
    free(text);
    json_array_append_new(e->kernels, entry);
    return fine;
}

/* Makes the folder or takes one that is there; only an empty one without --force. */
static bool take_folder(const struct export *e)
{
    if (!mkdir(e->folder, 0777))
        return true;
    if (errno != EEXIST)
        return !complain(e->options, "%s cannot be made: %s", e->folder, strerror(errno));
    DIR *dir = opendir(e->folder);
    if (!dir)
        return !complain(e->options, "%s cannot be read: %s", e->folder, strerror(errno));
    int entries = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        entries += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    if (entries && !e->options->force)
        return !complain(e->options, "%s is not empty, must be, or --force given", e->folder);
    return true;
}

int command_export(const struct options *o)
{
    if (!o->folder)
        return complain(o, "DIR is missing: the folder to write to must be given");
    struct export e = { .options = o, .folder = o->folder };
    e.have_ptx = find_ptx_folder(o, e.ptx_folder, sizeof e.ptx_folder);
    if (o->ptx_dir && access(o->ptx_dir, R_OK | X_OK))
        return complain(o, "--ptx-dir is \"%s\", must be a folder that can be read: %s", o->ptx_dir,
                        strerror(errno));
    if (!take_folder(&e))
        return EXIT_USAGE;

    e.kernels = json_array();
    bool fine = true;
    for (size_t i = 0; fine && i < ptxmm_kernel_count(); i++)
        if (!o->arch || manifest_is_for(ptxmm_kernel(i), o->arch))
            fine = export_kernel(&e, i);
    /* The manifest comes last: where there is one, all that it names is there. */
    json_t *manifest = manifest_create(e.kernels);
    char *text = fine ? json_dumps(manifest, JSON_INDENT(2)) : NULL;
    if (fine && !text)
        fine = !complain(o, "host memory is exhausted");
    if (fine) {
        const size_t length = strlen(text);
        text[length] = '\n'; /* in place of the terminator */
        fine = write_file(&e, "manifest.json", text, length + 1);
    }
    free(text);
    json_decref(manifest);
    if (fine)
        printf("%s: %lld cubins (%.1f KB), %lld PTX files%s, manifest.json\n", e.folder,
               (long long)e.cubins, (double)e.bytes / 1024, (long long)e.texts,
               e.texts == e.cubins ? ""
               : e.have_ptx        ? " (the others are not there)"
                                   : " (no folder with PTX was found)");
    return fine ? EXIT_RIGHT : EXIT_USAGE;
}
