// Accesses out of bounds of WebAssembly, which V8 makes exceptions of by its handler of SIGSEGV.
const bytes = Uint8Array.from([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // magic, version
    1, 6, 1, 0x60, 1, 0x7f, 1, 0x7f, // a type: i32 to i32
    3, 2, 1, 0, // a function of it
    5, 3, 1, 0, 1, // a memory of one page
    7, 8, 1, 4, 0x6c, 0x6f, 0x61, 0x64, 0, 0, // exported as "load"
    10, 9, 1, 7, 0, 0x20, 0, 0x28, 2, 0, 0x0b, // loads from its argument
]);
const { load } = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
let caught = 0;
for (let round = 0; round < 2000; round++) {
    const keep = Buffer.alloc(20000 + round, round);
    try {
        load(round % 2 ? 100 : 0x7fff0000);
    } catch (error) {
        caught += error instanceof WebAssembly.RuntimeError && keep.length > 0;
    }
}
console.log(caught === 1000 ? "ok" : `caught ${caught}`);
