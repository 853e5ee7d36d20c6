/**
 * The hash of the assignment. Names of sessions and nodes are often alike (`session-1`, `session-2`), so every bit of
 * the input must reach every bit of the output: names are folded into words, and a name of a session and a name of a
 * node are mixed again once they meet.
 *
 * All instances of a fleet must agree on it, whatever version they run. The values in its test are a contract.
 */

/** A name as two 32-bit words. */
export interface NameHash {
  readonly high: number
  readonly low: number
}

const HIGH_SEED = 0x9e3779b9
const LOW_SEED = 0x85ebca6b
const FOLD_PRIME = 0x01000193

export function hashName(name: string): NameHash {
  return { high: fold(name, HIGH_SEED), low: fold(name, LOW_SEED) }
}

/** Of a pair of names, evenly spread over the open interval from 0 to 1. */
export function unitOf(session: NameHash, node: NameHash): number {
  const high = avalanche(session.high ^ Math.imul(node.high, 0x27d4eb2f))
  const low = avalanche(session.low + Math.imul(node.low, 0x165667b1) + high)
  return ((high >>> 6) * 0x4000000 + (low >>> 6) + 0.5) / 0x10000000000000
}

function fold(name: string, seed: number): number {
  let word = seed
  for (let index = 0; index < name.length; index += 1) {
    word = Math.imul(word ^ name.charCodeAt(index), FOLD_PRIME)
    word ^= word >>> 15
  }
  return avalanche(word ^ name.length)
}

/** A bijection of 32-bit words in which each input bit flips half of the output bits. */
function avalanche(word: number): number {
  let mixed = word
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x7feb352d)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b)
  return (mixed ^ (mixed >>> 16)) | 0
}
