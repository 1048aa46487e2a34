export namespace scripts {
    namespace start {
        export { source };
        export let sha1: string;
    }
    namespace begun { }
    namespace fail { }
    namespace end { }
    namespace control { }
    namespace undecodable { }
}
/**
 * A script and the hash by which the server knows it.
 */
export type Script = {
    source: string;
    sha1: string;
};
declare const source: string;
export {};
