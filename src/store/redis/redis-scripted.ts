/**
 * A namespace on a server: its buckets, each with a prefix whose hash tag puts all its keys into one slot, and scripts
 * run in them. A script is sent by its digest; only a server that does not know it is sent the text.
 */
import { realmOf, type Resource } from '../../core/resource.ts'
import { runScript, type Argument, type RedisCalls } from '../../drivers/redis-driver.ts'
import type { CommandEffect } from '../../drivers/redis-errors.ts'
import { ATTEMPT_SCRIPT, VIEW_SCRIPT } from './redis-attempt-script.ts'
import { STATE_FIELD } from './redis-script-preamble.ts'
import {
  CONFIGURE_SCRIPT,
  COPY_SETTINGS_SCRIPT,
  DUE_SCRIPT,
  FORGET_SCRIPT,
  LEDGER_SCRIPT,
  LOOK_SCRIPT,
  RELIST_SCRIPT,
  TIDY_SCRIPT,
  TRIM_SCRIPT,
} from './redis-scripts.ts'

export const ATTEMPT: string = ATTEMPT_SCRIPT
export const VIEW: string = VIEW_SCRIPT
export const CONFIGURE: string = CONFIGURE_SCRIPT
export const COPY_SETTINGS: string = COPY_SETTINGS_SCRIPT
export const LOOK: string = LOOK_SCRIPT
export const LEDGER: string = LEDGER_SCRIPT
export const DUE: string = DUE_SCRIPT
export const RELIST: string = RELIST_SCRIPT
export const FORGET: string = FORGET_SCRIPT
export const TIDY: string = TIDY_SCRIPT
export const TRIM: string = TRIM_SCRIPT

export const KEY_PREFIX = 'tenure'

export interface RunOptions {
  readonly bucket: number
  readonly effect: CommandEffect
}

export interface Layout {
  readonly namespace: string
  /** How many; 1 unless the server is a cluster. */
  readonly buckets: number
}

export class RedisScripted {
  readonly calls: RedisCalls
  /** Of each bucket. */
  readonly prefixes: readonly string[]
  readonly #namespace: string

  constructor(calls: RedisCalls, { namespace, buckets }: Layout) {
    this.calls = calls
    this.#namespace = namespace
    this.prefixes = Array.from({ length: buckets }, (_, bucket) => {
      return `${KEY_PREFIX}:{${buckets === 1 ? namespace : `${namespace}/${bucket}`}}`
    })
  }

  get buckets(): readonly number[] {
    return [...this.prefixes.keys()]
  }

  bucketOf(resource: Resource): number {
    if (this.prefixes.length === 1) return 0
    return hash(realmOf(resource)) % this.prefixes.length
  }

  /** Wakes come from any bucket, and whoever waits listens in one place. */
  readonly channelOf = (session: string): string => {
    return `${KEY_PREFIX}:{${this.#namespace}}:w:${session}`
  }

  keyOf(bucket: number, name: string): string {
    return `${this.prefixes[bucket]}:${name}`
  }

  /** The command that asks for the state of a bucket. */
  stateCall(bucket: number): readonly string[] {
    return ['HGET', this.keyOf(bucket, 'e'), STATE_FIELD]
  }

  run(script: string, args: readonly Argument[], options: RunOptions): Promise<unknown> {
    const { bucket, effect } = options
    const keys = [this.prefixes[bucket] ?? '']
    return runScript((command) => this.calls.send(command, effect), { script, keys, args })
  }

  /** So that the first command of each kind is not sent twice. */
  async load(): Promise<void> {
    const all = [ATTEMPT, VIEW, CONFIGURE, LOOK, LEDGER, DUE, RELIST, FORGET, TIDY, TRIM]
    await Promise.all(all.map((script) => this.calls.send(['SCRIPT', 'LOAD', script], 'reads')))
  }
}

/** FNV-1a, with a finish that mixes its low bits. */
function hash(text: string): number {
  let mixed = 0x811c9dc5
  for (const byte of Buffer.from(text)) mixed = Math.imul(mixed ^ byte, 0x01000193)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x45d9f3b)
  return (mixed ^ (mixed >>> 15)) >>> 0
}
