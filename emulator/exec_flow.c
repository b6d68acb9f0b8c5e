/*
 * Branches, calls, exits, and the functions that the driver provides to kernels.
 */
#include "exec.h"

#include <stdio.h>
#include <stdlib.h>

#include "valid.h"

enum flow op_bra(struct warp *w, const struct inst *in, uint32_t mask)
{
    warp_jump(w, mask, (uint32_t)in->o[0].imm);
    return FLOW_NEXT;
}

enum flow op_brx(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct program *p = w->grid->program;
    const struct operand *list = &in->o[1];

    if (!warp_need(w, in, &in->o[0], mask, "the branch index"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t i = warp_value(w, &in->o[0], lane);
        if (i >= list->n)
            return warp_trap(w, in, (int)lane, TRAP_INSTRUCTION, "branch index %llu of %u labels",
                             (unsigned long long)i, list->n);
        warp_jump(w, 1u << lane, (uint32_t)operand_element(p, list, (unsigned)i)->imm);
    }
    return FLOW_NEXT;
}

/* ---- exits ---- */

enum flow op_exit(struct warp *w, const struct inst *in, uint32_t mask)
{
    lanes_exit(w, in, mask);
    return w->m->trapped ? FLOW_TRAP : FLOW_NEXT;
}

enum flow op_trap(struct warp *w, const struct inst *in, uint32_t mask)
{
    return warp_trap(w, in, __builtin_ctz(mask), TRAP_TRAP, "lanes %08x", mask);
}

enum flow op_brkpt(struct warp *w, const struct inst *in, uint32_t mask)
{
    return op_trap(w, in, mask);
}

enum flow op_pmevent(struct warp *w, const struct inst *in, uint32_t mask)
{
    (void)w;
    (void)in;
    (void)mask;
    return FLOW_NEXT;
}

enum flow exec_refuse(struct warp *w, const struct inst *in, const char *what)
{
    return warp_trap(w, in, -1, TRAP_INSTRUCTION, "not implemented: %s", what);
}

/* ---- the frame of a call ---- */

/* Bytes of the lane's frame, or a trap. */
static bool frame_place(struct warp *w, const struct inst *in, unsigned lane, uint64_t at,
                        size_t size, struct place *p)
{
    return warp_place(w, in, lane, SP_LOCAL, at, size, ACCESS_WRITE, p);
}

static void copy_place(const struct place *to, const struct place *from, unsigned size)
{
    memmove(to->data, from->data, size);
    valid_copy(to->valid, to->valid_at, from->valid, from->valid_at, size);
}

/*
 * Moves one argument or result between an operand of the caller (at frame offset `outer`, registers
 * `outside`) and a parameter of the callee (frame `inner`, registers `inside`).
 */
static bool pass(struct warp *w, const struct inst *in, unsigned lane, const struct operand *op,
                 uint32_t outer, const struct regs *outside, const struct param *param,
                 uint32_t inner, const struct regs *inside, bool into)
{
    struct place a, b = { 0 };
    const bool in_memory = op->kind == OPND_ADDR;
    const unsigned size = param->in_reg ? type_bits((enum type)param->type) / 8 : param->size;

    if (op->kind == OPND_SINK || !size)
        return true;
    if (in_memory && !frame_place(w, in, lane, outer + (uint64_t)op->off, size, &a))
        return false;
    if (!param->in_reg && !frame_place(w, in, lane, inner + (uint64_t)param->offset, size, &b))
        return false;
    if (in_memory && !param->in_reg) {
        copy_place(into ? &b : &a, into ? &a : &b, size);
        return true;
    }
    /* At least one side is a register: a value of at most 64 bits. */
    uint64_t v = 0;
    bool defined;
    const struct regs now = w->r;
    if (into ? in_memory : !param->in_reg) {
        const struct place *from = into ? &a : &b;
        memcpy(&v, from->data, size <= 8 ? size : 8);
        defined = valid_all(from->valid, from->valid_at, size);
    } else {
        const struct operand *from = into ? op : &param->reg;
        w->r = into ? *outside : *inside;
        v = warp_value(w, from, lane);
        defined = warp_defined(w, from) >> lane & 1;
    }
    if (into ? param->in_reg : !in_memory) {
        w->r = into ? *inside : *outside;
        warp_set(w, into ? &param->reg : op, lane, v, defined);
    } else {
        const struct place *to = into ? &b : &a;
        memcpy(to->data, &v, size <= 8 ? size : 8);
        valid_fill(to->valid, to->valid_at, size, defined);
    }
    w->r = now;
    return true;
}

/* Registers for one more call depth, big enough for every device function. */
static bool open_level(struct warp *w, const struct inst *in, unsigned depth)
{
    const struct program *p = w->grid->program;
    uint32_t counts[BANK_COUNT] = { 0 };

    if (depth >= CALL_DEPTH) {
        warp_trap(w, in, -1, TRAP_STACK, "%u calls deep", depth);
        return false;
    }
    if (w->levels[depth])
        return true;
    for (uint32_t i = 0; i < p->nfuncs; i++)
        for (unsigned b = 0; b < BANK_COUNT && !p->funcs[i].entry; b++)
            if (p->funcs[i].nregs[b] > counts[b])
                counts[b] = p->funcs[i].nregs[b];
    w->levels[depth] = regs_new(counts);
    if (!w->levels[depth])
        warp_trap(w, in, -1, TRAP_MEMORY, "registers of a call");
    return w->levels[depth] != NULL;
}

static void forget(struct regs *r, const struct function *fn, uint32_t lanes)
{
    for (uint32_t i = 0; i < fn->nregs[BANK_32]; i++)
        r->def32[i] &= ~lanes;
    for (uint32_t i = 0; i < fn->nregs[BANK_64]; i++)
        r->def64[i] &= ~lanes;
    for (uint32_t i = 0; i < fn->nregs[BANK_PRED]; i++)
        r->defp[i] &= ~lanes;
}

/* ---- vprintf ---- */

struct format_text {
    char *at;
    size_t room;
};

static bool read_byte(struct warp *w, const struct inst *in, unsigned lane, uint64_t address,
                      char *c)
{
    struct place p;

    if (!warp_place(w, in, lane, SP_GENERIC, address, 1, ACCESS_READ, &p))
        return false;
    *c = (char)*p.data;
    return true;
}

static bool read_string(struct warp *w, const struct inst *in, unsigned lane, uint64_t address,
                        char *text, size_t room)
{
    for (size_t i = 0; i + 1 < room; i++) {
        if (!read_byte(w, in, lane, address + i, &text[i]))
            return false;
        if (!text[i])
            return true;
    }
    text[room - 1] = 0;
    return true;
}

/* One argument of printf: 4 or 8 bytes, aligned to their size. */
static bool read_argument(struct warp *w, const struct inst *in, unsigned lane, uint64_t list,
                          uint64_t *offset, unsigned size, uint64_t *v)
{
    struct place p;

    *offset = (*offset + size - 1) / size * size;
    if (!warp_place(w, in, lane, SP_GENERIC, list + *offset, size, ACCESS_READ, &p))
        return false;
    if (p.valid && !valid_all(p.valid, p.valid_at, size)) {
        warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, list + *offset, "an argument of printf");
        return false;
    }
    *v = 0;
    memcpy(v, p.data, size);
    *offset += size;
    return true;
}

/* Formats like the device's printf; false: a trap. */
static bool print(struct warp *w, const struct inst *in, unsigned lane, uint64_t format,
                  uint64_t list, int *count)
{
    char text[1024], out[4096], spec[32], string[512];
    size_t used = 0;
    uint64_t offset = 0, v;

    *count = 0;
    if (!read_string(w, in, lane, format, text, sizeof text))
        return false;
    for (const char *c = text; *c; c++) {
        char piece[1024];
        if (*c != '%' || c[1] == '%') {
            piece[0] = *c;
            piece[1] = 0;
            c += *c == '%';
        } else {
            size_t n = 0;
            bool is_long = false;
            spec[n++] = *c++;
            while (*c && strchr("-+ #0123456789.*", *c) && n < 20) {
                if (*c == '*') {
                    if (!read_argument(w, in, lane, list, &offset, 4, &v))
                        return false;
                    n += (size_t)snprintf(spec + n, 8, "%u", (unsigned)v % 1000);
                    c++;
                } else {
                    spec[n++] = *c++;
                }
            }
            while (*c && strchr("hlLjzt", *c))
                is_long |= *c++ != 'h';
            ++*count;
            switch (*c) {
            case 'd': case 'i': case 'u': case 'x': case 'X': case 'o': case 'c':
                if (!read_argument(w, in, lane, list, &offset, is_long ? 8 : 4, &v))
                    return false;
                if (!is_long && (*c == 'd' || *c == 'i'))
                    v = (uint64_t)(int64_t)(int32_t)(uint32_t)v;
                if (*c != 'c') {
                    spec[n++] = 'l';
                    spec[n++] = 'l';
                }
                spec[n++] = *c;
                spec[n] = 0;
                if (*c == 'c')
                    snprintf(piece, sizeof piece, spec, (int)(unsigned char)v);
                else
                    snprintf(piece, sizeof piece, spec, (unsigned long long)v);
                break;
            case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': case 'a': case 'A': {
                double d;
                if (!read_argument(w, in, lane, list, &offset, 8, &v))
                    return false;
                memcpy(&d, &v, sizeof d);
                spec[n++] = *c;
                spec[n] = 0;
                snprintf(piece, sizeof piece, spec, d);
                break;
            }
            case 'p':
                if (!read_argument(w, in, lane, list, &offset, 8, &v))
                    return false;
                snprintf(piece, sizeof piece, "0x%llx", (unsigned long long)v);
                break;
            case 's':
                if (!read_argument(w, in, lane, list, &offset, 8, &v) ||
                    !read_string(w, in, lane, v, string, sizeof string))
                    return false;
                spec[n++] = 's';
                spec[n] = 0;
                snprintf(piece, sizeof piece, spec, string);
                break;
            default:
                spec[n] = 0;
                snprintf(piece, sizeof piece, "%s", spec);
                if (!*c)
                    c--;
                break;
            }
        }
        const size_t length = strlen(piece);
        if (used + length >= sizeof out)
            break;
        memcpy(out + used, piece, length);
        used += length;
    }
    if (w->m->config.print)
        w->m->config.print(w->m->config.user, out, used);
    return true;
}

static bool argument(struct warp *w, const struct inst *in, unsigned lane, unsigned i,
                     unsigned size, uint64_t *v)
{
    const struct operand *list = &in->o[2];
    const struct program *p = w->grid->program;
    struct place place;

    *v = 0;
    if (list->kind != OPND_VEC || i >= list->n) {
        warp_trap(w, in, (int)lane, TRAP_CALL, "argument %u is missing", i);
        return false;
    }
    const struct operand *op = operand_element(p, list, i);
    if (op->kind != OPND_ADDR) {
        *v = warp_value(w, op, lane);
        return true;
    }
    if (!frame_place(w, in, lane, w->frame + (uint64_t)op->off, size, &place))
        return false;
    memcpy(v, place.data, size);
    return true;
}

static enum flow call_printf(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct operand *results = &in->o[1];

    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        uint64_t format, list;
        int count;
        if (!argument(w, in, lane, 0, 8, &format) || !argument(w, in, lane, 1, 8, &list) ||
            !print(w, in, lane, format, list, &count))
            return FLOW_TRAP;
        if (results->kind != OPND_VEC || !results->n)
            continue;
        const struct operand *d = operand_element(w->grid->program, results, 0);
        struct place p;
        if (d->kind == OPND_REG) {
            warp_set(w, d, lane, (uint32_t)count, true);
        } else if (d->kind == OPND_ADDR) {
            if (!frame_place(w, in, lane, w->frame + (uint64_t)d->off, 4, &p))
                return FLOW_TRAP;
            memcpy(p.data, &count, 4);
            valid_fill(p.valid, p.valid_at, 4, true);
        }
    }
    return FLOW_NEXT;
}

static enum flow call_assert(struct warp *w, const struct inst *in, uint32_t mask)
{
    const unsigned lane = (unsigned)__builtin_ctz(mask);
    char message[256], file[256];
    uint64_t what, where, line;

    if (!argument(w, in, lane, 0, 8, &what) || !argument(w, in, lane, 1, 8, &where) ||
        !argument(w, in, lane, 2, 4, &line) ||
        !read_string(w, in, lane, what, message, sizeof message) ||
        !read_string(w, in, lane, where, file, sizeof file))
        return FLOW_TRAP;
    return warp_trap(w, in, (int)lane, TRAP_ASSERT, "%s:%u: %s", file, (unsigned)line, message);
}

/* ---- the stack pointer ---- */

/* What alloca took beyond so many bytes is nobody's, and undefined when it is taken again. */
static void give_back(struct warp *w, unsigned lane, uint32_t taken)
{
    uint8_t *const valid = w->local_valid + lane * valid_bytes(w->local_size);

    valid_fill(valid, w->local_size - w->taken[lane], w->taken[lane] - taken, false);
    w->taken[lane] = taken;
}

enum flow op_stacksave(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!warp_local(w, in))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        warp_set(w, &in->o[0], lane, w->local_size - w->taken[lane], true);
    }
    return FLOW_NEXT;
}

enum flow op_stackrestore(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!warp_local(w, in) || !warp_need(w, in, &in->o[0], mask, "the stack pointer"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t to = warp_value(w, &in->o[0], lane);
        const uint32_t now = w->local_size - w->taken[lane];
        const uint32_t first = w->local_size - (w->depth ? w->stack[lane][w->depth].taken : 0);
        if (to < now || to > first)
            return warp_trap(w, in, (int)lane, TRAP_STACK, "0x%llx is no stack pointer of this "
                             "function: it began at 0x%x and is at 0x%x", (unsigned long long)to,
                             first, now);
        give_back(w, lane, w->local_size - (uint32_t)to);
    }
    return FLOW_NEXT;
}

enum flow op_alloca(struct warp *w, const struct inst *in, uint32_t mask)
{
    const uint32_t asked = in->o[2].kind == OPND_IMM ? (uint32_t)in->o[2].imm : 0;
    const uint32_t align = asked > 8 ? asked : 8;

    if (!warp_local(w, in) || !warp_need(w, in, &in->o[1], mask, "the size"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t size = warp_value(w, &in->o[1], lane);
        const uint32_t now = w->local_size - w->taken[lane], room = now - w->frame_bytes;
        const uint32_t to = size > room ? 0 : (now - (uint32_t)size) & ~(align - 1);
        if (size > room || to < w->frame_bytes)
            return warp_trap(w, in, (int)lane, TRAP_STACK, "alloca of %llu bytes at a multiple of "
                             "%u: %u are left (cuCtxSetLimit has more)", (unsigned long long)size,
                             align, room);
        w->taken[lane] = w->local_size - to;
        warp_set(w, &in->o[0], lane, to, true);
    }
    return FLOW_NEXT;
}

/* ---- call and return ---- */

static const struct function *callee_of(struct warp *w, const struct inst *in, unsigned lane)
{
    const struct program *p = w->grid->program;
    const struct operand *op = &in->o[0];

    if (op->kind == OPND_FUNC)
        return &p->funcs[op->reg];
    const uint64_t i = warp_value(w, op, lane) - FUNCTION_ADDRESS;
    return i < p->nfuncs ? &p->funcs[i] : NULL;
}

static enum flow enter(struct warp *w, const struct inst *in, uint32_t lanes,
                       const struct function *fn)
{
    const struct program *p = w->grid->program;
    const unsigned depth = w->depth + 1;
    const uint32_t outer = w->frame, inner = outer + w->fn->frame_size;
    const struct operand *arguments = &in->o[2];

    if (!open_level(w, in, depth))
        return FLOW_TRAP;
    struct regs *inside = w->levels[depth];
    const struct regs outside = w->r;
    forget(inside, fn, lanes);
    const unsigned given = arguments->kind == OPND_VEC ? arguments->n : 0;
    if (given != fn->nparams)
        return warp_trap(w, in, -1, TRAP_CALL, "%s takes %u arguments, not %u", fn->name,
                         fn->nparams, given);
    for (uint32_t left = lanes; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (!w->stack[lane]) {
            w->stack[lane] = calloc(CALL_DEPTH, sizeof *w->stack[lane]);
            if (!w->stack[lane])
                return warp_trap(w, in, (int)lane, TRAP_MEMORY, "a call stack");
        }
        w->stack[lane][depth] = (struct lane_frame){
            .ret = w->at + 1, .call = w->at, .frame = outer, .taken = w->taken[lane],
            .fn = w->fn,
        };
        if (fn->frame_size) {
            struct place frame;
            if (!frame_place(w, in, lane, inner, fn->frame_size, &frame))
                return FLOW_TRAP;
            valid_fill(frame.valid, frame.valid_at, fn->frame_size, false);
        }
        for (unsigned i = 0; i < given; i++)
            if (!pass(w, in, lane, operand_element(p, arguments, i), outer, &outside,
                      &fn->params[i], inner, inside, true))
                return FLOW_TRAP;
        w->lane_depth[lane] = (uint8_t)depth;
        w->lane_frame[lane] = inner;
        w->lane_fn[lane] = fn;
    }
    warp_jump(w, lanes, fn->first);
    return FLOW_NEXT;
}

enum flow op_call(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->o[0].kind != OPND_FUNC && !warp_need(w, in, &in->o[0], mask, "the function pointer"))
        return FLOW_TRAP;
    while (mask) {
        const unsigned first = (unsigned)__builtin_ctz(mask);
        const struct function *fn = callee_of(w, in, first);
        uint32_t same = mask;
        if (in->o[0].kind != OPND_FUNC)
            for (uint32_t left = mask; left; left &= left - 1) {
                const unsigned lane = (unsigned)__builtin_ctz(left);
                if (callee_of(w, in, lane) != fn)
                    same &= ~(1u << lane);
            }
        if (!fn || fn->entry)
            return warp_trap(w, in, (int)first, TRAP_CALL, "the pointer names no device function");
        enum flow flow;
        switch (fn->builtin) {
        case BUILTIN_VPRINTF: flow = call_printf(w, in, same); break;
        case BUILTIN_ASSERTFAIL: flow = call_assert(w, in, same); break;
        case BUILTIN_MALLOC: case BUILTIN_FREE: flow = exec_refuse(w, in, fn->name); break;
        default:
            flow = fn->is_extern ? exec_refuse(w, in, fn->name) : enter(w, in, same, fn);
            break;
        }
        if (flow == FLOW_TRAP)
            return flow;
        mask &= ~same;
    }
    return FLOW_NEXT;
}

enum flow op_ret(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct program *p = w->grid->program;
    const struct function *fn = w->fn;
    const uint32_t inner = w->frame;

    if (!w->depth)
        return op_exit(w, in, mask);
    const struct regs inside = w->r;
    struct regs *outside = w->levels[w->depth - 1];
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const struct lane_frame *f = &w->stack[lane][w->depth];
        const struct operand *results = &warp_inst(w, f->call)->o[1];
        const unsigned taken = results->kind == OPND_VEC ? results->n : 0;
        for (unsigned i = 0; i < taken && i < fn->nrets; i++)
            if (!pass(w, in, lane, operand_element(p, results, i), f->frame, outside,
                      &fn->rets[i], inner, &inside, false))
                return FLOW_TRAP;
        if (w->taken[lane] != f->taken)
            give_back(w, lane, f->taken);
        w->lane_depth[lane]--;
        w->lane_frame[lane] = f->frame;
        w->lane_fn[lane] = f->fn;
        warp_jump(w, 1u << lane, f->ret);
    }
    return FLOW_NEXT;
}
