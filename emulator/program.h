// program.h -- a PTX module, decoded once into a flat program that the machine executes
//
// program_load() turns PTX text into a struct program: symbols, functions, and one array of fixed-
// size instructions. Everything a handler needs is in the instruction: an opcode, types and
// modifiers as small enums, and operands that are already register indices, immediates in the
// operand's own format, or address bases. isa.def has a row for every accepted form; its operand
// column is the slot order in inst.o[] (slot n is the n-th operand of that column; an operand the
// text leaves out has kind OPND_NONE). Nothing refers to PTX names at run time but reports.
//
// A struct program is read-only after loading but for two things set once, before any launch:
// symbol.address, by the driver, when it has placed the module's variables, and inst.exec, by the
// machine.
#ifndef EMULATOR_PROGRAM_H
#define EMULATOR_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- types --------------------------------------------------------------------------------------

enum type {
    TY_NONE,
    TY_PRED,
    TY_B1,
    TY_B4, TY_U4, TY_S4,                        // only as names of matrix operand types
    TY_B8, TY_U8, TY_S8, TY_E4M3, TY_E5M2, TY_E2M1, TY_E2M3, TY_E3M2, TY_UE8M0, TY_UE4M3,
    TY_B16, TY_U16, TY_S16, TY_F16, TY_BF16, TY_E4M3X2, TY_E5M2X2, TY_E2M3X2, TY_E3M2X2,
    TY_UE8M0X2, TY_E2M1X2,
    TY_B32, TY_U32, TY_S32, TY_F32, TY_TF32, TY_F16X2, TY_BF16X2, TY_U16X2, TY_S16X2,
    TY_E4M3X4, TY_E5M2X4, TY_E2M3X4, TY_E3M2X4, TY_E2M1X4,
    TY_B64, TY_U64, TY_S64, TY_F64, TY_F32X2,
    TY_B128, TY_B1024,
    TY_COUNT
};

// storage width in bits: s16 16, f16x2 32, pred 1, e2m1x2 8, e4m3x2 16
unsigned type_bits(enum type t);
bool type_signed(enum type t);                  // s8..s64, s16x2
bool type_float(enum type t);                   // f16, bf16, f32, tf32, f64 and their x2
const char *type_name(enum type t);             // "s32" (no dot)

// ---- registers ----------------------------------------------------------------------------------
// Three banks per function, indices from 0. Types of 8, 16 and 32 bits live in BANK_32, 64-bit
// types in BANK_64, a b128 register is two consecutive BANK_64 registers (low half first).
// Registers of disjoint live ranges share an index (function.nregs is what a warp must allocate);
// one that may be read before it is written has had no other in its place.

enum bank { BANK_PRED, BANK_32, BANK_64, BANK_COUNT };

// three-component ones are followed by their y and z
enum special {
    SR_TID_X, SR_TID_Y, SR_TID_Z, SR_NTID_X, SR_NTID_Y, SR_NTID_Z,
    SR_CTAID_X, SR_CTAID_Y, SR_CTAID_Z, SR_NCTAID_X, SR_NCTAID_Y, SR_NCTAID_Z,
    SR_CLUSTERID_X, SR_CLUSTERID_Y, SR_CLUSTERID_Z,
    SR_NCLUSTERID_X, SR_NCLUSTERID_Y, SR_NCLUSTERID_Z,
    SR_CLUSTER_CTAID_X, SR_CLUSTER_CTAID_Y, SR_CLUSTER_CTAID_Z,
    SR_CLUSTER_NCTAID_X, SR_CLUSTER_NCTAID_Y, SR_CLUSTER_NCTAID_Z,
    SR_CLUSTER_CTARANK, SR_CLUSTER_NCTARANK, SR_IS_EXPLICIT_CLUSTER,    // the last is a predicate
    // gridid is 64-bit, truncated in 32-bit reads
    SR_LANEID, SR_WARPID, SR_NWARPID, SR_SMID, SR_NSMID, SR_GRIDID,
    SR_LANEMASK_EQ, SR_LANEMASK_LE, SR_LANEMASK_LT, SR_LANEMASK_GE, SR_LANEMASK_GT,
    SR_CLOCK, SR_CLOCK_HI, SR_CLOCK64, SR_GLOBALTIMER, SR_GLOBALTIMER_LO, SR_GLOBALTIMER_HI,
    SR_DYNAMIC_SMEM_SIZE, SR_TOTAL_SMEM_SIZE, SR_AGGR_SMEM_SIZE, SR_CURRENT_GRAPH_EXEC,
    SR_RESERVED_SMEM_BEGIN, SR_RESERVED_SMEM_END, SR_RESERVED_SMEM_CAP,     // 0, 0x400, 0x400
    SR_RESERVED_SMEM_0, SR_RESERVED_SMEM_1,     // offsets of words in the reserved first KB
    SR_ENVREG1, SR_ENVREG2,                     // address of a cooperative grid's barrier: high, low
    SR_PM0,                                     // every %pm and other %envreg reads 0
    SR_COUNT
};

const char *special_name(enum special s);       // "%tid.x"

// ---- operands -----------------------------------------------------------------------------------

enum operand_kind {
    OPND_NONE,      // left out
    // bank, reg. In BANK_PRED negated says the operand is !p. type is the declared type
    OPND_REG,
    // imm: bits in the operand's type, zero above its width (f16 3c00, s32 -1 = 00000000ffffffff,
    // s64 64 bits)
    OPND_IMM,
    OPND_SPECIAL,   // reg is an enum special
    OPND_SINK,      // _ : the result is dropped
    // n elements, program.elems[reg .. reg + n - 1]; each is REG, IMM, SINK, LABEL or ADDR
    OPND_VEC,
    OPND_ADDR,      // memory operand [..], or a symbol used as a value: base, plus off
    OPND_LABEL,     // imm is the index of the target instruction
    // reg is an index into program.funcs (call target, or a function's address as value)
    OPND_FUNC
};

// Address = value(base) + off. With ADDR_REG the register holds an address of the instruction's
// space (32-bit registers are legal for shared, local, param; zero-extend). Everything else is a
// symbol:
enum addr_base {
    ADDR_ABS,       // no base: off is the address
    ADDR_REG,       // bank, reg
    // kernel parameter bank; off is the offset within the parameters (0 = first byte)
    ADDR_PARAM,
    // frame of the executing thread's current function (.local variables; parameters of a device
    // function; .param variables declared in a body), off counted from the frame's start
    ADDR_FRAME,
    // the CTA's own user shared memory, off counted from its start (static first, then dynamic)
    ADDR_SHARED,
    ADDR_SYMBOL     // .global or .const variable: program.symbols[reg].address + off
};

struct operand {
    uint8_t kind;           // enum operand_kind
    uint8_t bank;           // enum bank: REG, and ADDR with ADDR_REG
    uint8_t base;           // enum addr_base: ADDR
    uint8_t type;           // enum type: REG: as declared; IMM: the type imm is encoded in
    uint16_t n;             // VEC: number of elements
    bool negated;           // predicate operand written !p
    uint32_t reg;           // REG, SPECIAL, VEC, FUNC, ADDR
    union {
        uint64_t imm;       // IMM, LABEL
        int64_t off;        // ADDR
    };
};

// ---- modifiers ----------------------------------------------------------------------------------

enum opcode {
#define OP(NAME, name) OP_##NAME,
#define FORM(NAME, mnemonic, operands, semantics)
#include "isa.def"
#undef OP
#undef FORM
    OP_COUNT
};

enum rounding {
    RND_NONE, RND_RN, RND_RZ, RND_RM, RND_RP, RND_RNA, RND_RNI, RND_RZI, RND_RMI, RND_RPI
};

// setp, set; lo ls hi hs decode to LT LE GT GE (types are unsigned)
enum compare {
    CMP_NONE, CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE,
    CMP_EQU, CMP_NEU, CMP_LTU, CMP_LEU, CMP_GTU, CMP_GEU, CMP_NUM, CMP_NAN
};

enum suboperation {                             // inst.sub
    SUB_NONE,
    // atom red redux bulk
    SUB_ADD, SUB_MIN, SUB_MAX, SUB_AND, SUB_OR, SUB_XOR, SUB_INC, SUB_DEC, SUB_EXCH, SUB_CAS,
    SUB_POPC,
    SUB_LO, SUB_HI, SUB_WIDE,                   // mul mad mul24 mad24
    SUB_L, SUB_R,                               // shf
    SUB_IDX, SUB_UP, SUB_DOWN, SUB_BFLY,        // shfl
    SUB_ALL, SUB_ANY, SUB_UNI, SUB_BALLOT,      // vote, match (all, any)
    SUB_F4E, SUB_B4E, SUB_RC8, SUB_ECL, SUB_ECR, SUB_RC16,      // prmt modes (SUB_NONE: index mode)
    SUB_FINITE, SUB_INFINITE, SUB_NUMBER, SUB_NOTANUMBER, SUB_NORMAL, SUB_SUBNORMAL,    // testp
    SUB_CLAMP, SUB_WRAP,                        // bmsk, szext
    // tensormap.replace field
    SUB_GLOBAL_ADDRESS, SUB_RANK, SUB_BOX_DIM, SUB_GLOBAL_DIM, SUB_GLOBAL_STRIDE,
    SUB_ELEMENT_STRIDE, SUB_ELEMTYPE, SUB_INTERLEAVE_LAYOUT, SUB_SWIZZLE_MODE,
    SUB_SWIZZLE_ATOMICITY, SUB_FILL_MODE,
    // createpolicy and prefetch levels and priorities
    SUB_L1, SUB_L2, SUB_EVICT_LAST, SUB_EVICT_NORMAL, SUB_EVICT_FIRST, SUB_EVICT_UNCHANGED,
    // tcgen05.mma collector; tcgen05.cp multicast and (sub2) source format; tensor copies of rows
    SUB_FILL, SUB_USE, SUB_LASTUSE, SUB_DISCARD,
    SUB_WARPX2_02_13, SUB_WARPX2_01_23, SUB_WARPX4,
    SUB_B4X16_P64, SUB_B6X16_P32,
    SUB_GATHER4, SUB_SCATTER4,
    SUB_A, SUB_B, SUB_C                         // wmma.load
};

enum tcgen_kind {                               // inst.kind
    KIND_NONE, KIND_F16, KIND_TF32, KIND_F8F6F4, KIND_I8, KIND_MXF8F6F4, KIND_MXF4, KIND_MXF4NVF4
};

enum tcgen_shape {                              // inst.shape: tcgen05.ld and st, then cp
    SHAPE_NONE, SHAPE_32X32B, SHAPE_16X64B, SHAPE_16X128B, SHAPE_16X256B, SHAPE_16X32BX2,
    SHAPE_128X256B, SHAPE_4X256B, SHAPE_128X128B, SHAPE_64X128B, SHAPE_32X128B
};

// inst.space: of the address; SP_GENERIC when no space is written
enum space {
    SP_GENERIC, SP_GLOBAL, SP_SHARED, SP_SHARED_CLUSTER, SP_LOCAL, SP_CONST, SP_PARAM,
    SP_TENSOR               // Tensor Memory: lane << 16 | column
};
// .shared and .shared::cta are SP_SHARED. ld/st.param of a device function's parameters have
// SP_PARAM with an ADDR_FRAME base (per thread, writable); kernel parameters have an ADDR_PARAM
// base, or a register.

enum memory_semantics {
    SEM_WEAK, SEM_RELAXED, SEM_ACQUIRE, SEM_RELEASE, SEM_ACQ_REL, SEM_SC, SEM_VOLATILE, SEM_MMIO
};

// none: the form's default
enum scope { SCOPE_NONE, SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYS };

// inst.flags
#define INST_FTZ            (1u << 0)           // subnormal f32 inputs and outputs flushed
#define INST_SAT            (1u << 1)           // .sat (clamp to [0,1] or to the integer range)
#define INST_SATFINITE      (1u << 2)           // .satfinite (cvt; wgmma integer clamp)
#define INST_RELU           (1u << 3)
#define INST_NAN            (1u << 4)           // min/max .NaN
#define INST_APPROX         (1u << 5)           // .approx
#define INST_FULL           (1u << 6)           // div.full
#define INST_CC             (1u << 7)           // writes the carry flag (.cc)
#define INST_XORSIGN        (1u << 8)           // min/max .xorsign.abs
#define INST_ABS            (1u << 9)           // min/max .abs
#define INST_SYNC           (1u << 10)
#define INST_ALIGNED        (1u << 11)          // .aligned: written, or implied (bar.*)
#define INST_UNIFORM        (1u << 12)          // bra.uni, call.uni
#define INST_TRANS          (1u << 13)          // ldmatrix, stmatrix .trans
#define INST_NC             (1u << 14)          // ld.global.nc
#define INST_NOFTZ          (1u << 15)          // .noftz
#define INST_PARITY         (1u << 16)          // mbarrier wait by parity
#define INST_NOCOMPLETE     (1u << 17)          // mbarrier .noComplete
#define INST_NOINC          (1u << 18)          // cp.async.mbarrier.arrive.noinc
#define INST_EXPECT_TX      (1u << 19)          // mbarrier.arrive.expect_tx
#define INST_DROP           (1u << 20)          // mbarrier.arrive_drop
#define INST_MULTICAST      (1u << 21)
#define INST_CACHE_HINT     (1u << 22)          // has a cache policy operand
#define INST_READ           (1u << 23)          // bulk wait_group.read
#define INST_TO             (1u << 24)          // cvta.to, createpolicy.cvt
#define INST_ARRIVE         (1u << 25)          // bar.arrive / barrier.cluster.arrive
#define INST_WAIT           (1u << 26)          // barrier.cluster.wait
#define INST_NEG_A          (1u << 27)          // wgmma: imm-scale-a is -1
#define INST_NEG_B          (1u << 28)
#define INST_TRANS_A        (1u << 29)          // wgmma: A is MN-major (tnspA 1)
#define INST_TRANS_B        (1u << 30)
#define INST_SHIFTAMT       (1u << 31)          // bfind.shiftamt
#define INST_TRY            INST_SHIFTAMT       // mbarrier.try_wait (test_wait without)
#define INST_ORDERED        INST_PARITY         // mma.sp::ordered_metadata
#define INST_COL            INST_TRANS          // wmma.load, wmma.store: the matrix by columns
#define INST_PACK           INST_TRANS          // tcgen05.ld .pack::16b, st .unpack::16b
#define INST_ASHIFT         INST_SHIFTAMT       // tcgen05.mma .ashift
#define INST_SCALE_VEC      INST_CC             // tcgen05.mma block size spelled .scale_vec::NX

#define INST_OPERANDS 8

enum guard { GUARD_NONE, GUARD_TRUE, GUARD_FALSE };     // @p is GUARD_TRUE, @!p is GUARD_FALSE

struct inst {
    uint16_t op;            // enum opcode
    uint16_t guard_reg;     // BANK_PRED index
    uint8_t guard;          // enum guard
    // enum type, in the order written (cvt: destination, source; wgmma: D, A, B; mma: D, A, B)
    uint8_t type[3];
    uint32_t flags;
    uint8_t rnd, cmp, sub;  // enum rounding, compare, suboperation (setp.and/.or/.xor combine: sub)
    uint8_t space, space2;  // enum space: of the address; copies: destination, source
    uint8_t sem, scope;     // enum memory_semantics, scope
    // .v2 .v4 .v8, ldmatrix and tcgen05 .x1 .. .x128: number of elements; 1 without
    uint8_t vec;
    uint8_t dim;            // tensor copies: 1..5; launch control: 1 2 3 for x y z
    uint8_t nopnd;          // number of slots of the form
    uint8_t sub2;           // enum suboperation: shf mode, createpolicy secondary priority
    uint8_t dst;            // bit s: slot s is a destination
    uint8_t cta_group;      // tcgen05, tensor copies: 1 or 2; 0 when not written
    uint8_t kind, shape;    // enum tcgen_kind, tcgen_shape
    uint8_t block;          // tcgen05.mma: elements per scale factor, 16 or 32
    uint16_t m, n, k;       // wgmma, mma: shape
    void (*exec)(void);     // the machine's: whatever it dispatches on
    struct operand o[INST_OPERANDS];
};

// ---- symbols, parameters, functions -------------------------------------------------------------

// initialiser word that is an address: store value(symbol or function) + addend at offset
struct reloc {
    uint64_t offset;
    int64_t addend;
    uint32_t index;         // into symbols, or into funcs if function
    bool function;
    // written generic(..); the address spaces coincide here, so it makes no difference
    bool generic;
    uint8_t size;           // bytes of the word, 1..8
    uint8_t shift;          // mask(..): which byte, as a right shift; 0 otherwise
};

struct symbol {             // module-scope (or function-scope static) .global and .const variables
    const char *name;
    enum space space;       // SP_GLOBAL or SP_CONST
    bool is_extern;         // declared elsewhere; size 0 when unknown
    bool is_function_local; // declared in a function body: not found by cuModuleGetGlobal
    uint32_t align;
    uint64_t size;
    const uint8_t *init;    // size bytes, or NULL: zero
    const struct reloc *relocs;
    uint32_t nrelocs;
    bool visible;           // .visible, .weak or .common: cuModuleGetGlobal finds it
    uint64_t address;       // set by the driver
};

struct shared_symbol {
    const char *name;
    // from the start of user shared memory; dynamic (extern []) ones: where dynamic memory starts
    uint32_t offset;
    uint32_t size;
    uint32_t align;
    bool dynamic;
};

struct param {
    const char *name;
    enum type type;         // of one element
    uint32_t size;          // bytes, whole array
    uint32_t align;
    uint32_t offset;        // kernel: in the parameter bank.
                            // device function: in the callee's frame. Register parameters: see reg
                            // (the bank starts at 0x210: (0x210 + offset) is a multiple of align)
    bool in_reg;            // .reg parameter of a device function
    struct operand reg;     // OPND_REG then
    bool pointer;           // .ptr
    uint32_t ptr_align;
    enum space ptr_space;
};

enum builtin { BUILTIN_NONE, BUILTIN_VPRINTF, BUILTIN_ASSERTFAIL, BUILTIN_MALLOC, BUILTIN_FREE };

struct label { const char *name; uint32_t pc; };

struct function {
    const char *name;
    bool entry;
    bool is_extern;         // no body: builtin, or an error when called
    bool is_alias;          // .alias: shares another function's instructions
    bool noreturn;
    enum builtin builtin;
    struct param *params;   uint32_t nparams;
    struct param *rets;     uint32_t nrets;     // device functions
    uint32_t param_size;    // kernel: bytes of the parameter bank
    // bytes of ADDR_FRAME storage per thread and activation (multiple of 16)
    uint32_t frame_size;
    uint32_t frame_align;
    uint32_t nregs[BANK_COUNT];
    uint32_t first, end;    // instructions [first, end); the last is an implicit exit or ret
    // kernels: shared memory, counting what called device functions use
    uint32_t static_smem;   // bytes
    uint32_t dynamic_smem;  // offset at which dynamic shared memory starts (static_smem rounded up)
    uint32_t dynamic_align; // 0: no extern shared variable is used
    const struct shared_symbol *shared; uint32_t nshared;
    // performance directives; 0 = not given
    uint32_t maxntid[3], reqntid[3];
    uint32_t minnctapersm, maxnreg;
    uint32_t reqnctapercluster[3];
    uint32_t maxclusterrank;
    bool explicitcluster;
    bool blocksareclusters;
    bool uses_setmaxnreg;
    bool uses_cluster;      // names anything of clusters
    bool uses_launch_dependents;
    uint8_t cta_groups;     // bit g: has tcgen05 instructions of .cta_group::g
    bool recursive;         // may call itself, directly or not, or calls through a pointer
    uint32_t max_frame;     // kernels: deepest sum of frames over the call graph; 0 if recursive
    const struct label *labels; uint32_t nlabels;       // in order of pc
};

struct where {              // of one instruction
    uint32_t file;          // index into files; 0 is the PTX text itself
    uint32_t line;          // in that file
    uint32_t ptx_line;      // line of the PTX text
    // slice of program.text: the statement as written, without its semicolon
    uint32_t text, len;
    uint32_t func;          // index into funcs
};

struct program {
    unsigned version;       // 90 for .version 9.0
    unsigned sm;            // 90 for .target sm_90a
    char sm_suffix;         // 'a', 'f' or 0
    unsigned address_size;  // 64
    struct inst *insts;     uint32_t ninsts;
    struct where *where;                        // one per instruction
    struct operand *elems;  uint32_t nelems;
    struct function *funcs; uint32_t nfuncs;    // in order of declaration
    struct symbol *symbols; uint32_t nsymbols;
    const char **files;     uint32_t nfiles;    // files[0] is options.file or "ptx"
    const char *text;       size_t text_len;    // private copy of the source
    bool moves_stack;       // has alloca, stacksave or stackrestore
    struct arena *arena;    // owns all of the above
};

struct load_options {
    unsigned sm;            // the part's compute capability, e.g. 90; 0 accepts any target
    const char *file;       // name for reports, or NULL
    // keep instructions that parse but are not implemented; else they are errors
    bool allow_unimplemented;
};

enum load_status {
    LOAD_OK,
    LOAD_INVALID,           // text is not valid PTX
    LOAD_UNSUPPORTED_VERSION,   // .version too new
    LOAD_WRONG_TARGET,      // .target does not run on options.sm
    LOAD_NO_MEMORY
};

struct load_error {
    enum load_status status;
    uint32_t line, column;  // 1-based, line as cpp markers say
    char file[256];
    char message[512];      // what is wrong and what was expected
    char text[160];         // the source line
};

// Decodes text (len bytes, need not be terminated; a trailing NUL is ignored). On success *out is a
// program to be freed with program_free; on failure *out is NULL and *error (may be NULL) says why.
enum load_status program_load(const char *text, size_t len, const struct load_options *options,
                              struct program **out, struct load_error *error);
void program_free(struct program *p);           // NULL is fine

// NULL if there is none
const struct function *program_find(const struct program *p, const char *name);
const struct symbol *program_symbol(const struct program *p, const char *name);
const struct function *program_function_at(const struct program *p, uint32_t pc);
// The instruction's source text on one line, runs of blanks as one, cut to n bytes with "...";
// returns buf.
const char *program_text(const struct program *p, uint32_t pc, char *buf, size_t n);
// The nearest label at or before pc in its function, "" if none.
const char *program_label(const struct program *p, uint32_t pc);
const char *opcode_name(enum opcode op);        // "ADD"
const char *opcode_semantics(enum opcode op);   // first semantics line of isa.def

#endif
