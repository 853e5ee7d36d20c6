/**
 * A namespace on a server: its buckets, each with a prefix whose hash tag puts all its keys into one slot, and scripts
 * run in them. A script is sent by its digest; only a server that does not know it is sent the text.
 */
import { createHash } from 'node:crypto'
import { realmOf, type Resource } from '../../core/resource.ts'
import { isNoScript, type Argument, type CommandEffect, type RedisCalls } from './redis-client.ts'
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

export interface Script {
  readonly text: string
  readonly digest: string
}

function scriptOf(text: string): Script {
  return { text, digest: createHash('sha1').update(text).digest('hex') }
}

export const ATTEMPT: Script = scriptOf(ATTEMPT_SCRIPT)
export const VIEW: Script = scriptOf(VIEW_SCRIPT)
export const CONFIGURE: Script = scriptOf(CONFIGURE_SCRIPT)
export const COPY_SETTINGS: Script = scriptOf(COPY_SETTINGS_SCRIPT)
export const LOOK: Script = scriptOf(LOOK_SCRIPT)
export const LEDGER: Script = scriptOf(LEDGER_SCRIPT)
export const DUE: Script = scriptOf(DUE_SCRIPT)
export const RELIST: Script = scriptOf(RELIST_SCRIPT)
export const FORGET: Script = scriptOf(FORGET_SCRIPT)
export const TIDY: Script = scriptOf(TIDY_SCRIPT)
export const TRIM: Script = scriptOf(TRIM_SCRIPT)

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

  async run(script: Script, args: readonly Argument[], options: RunOptions): Promise<unknown> {
    const { bucket, effect } = options
    const prefix = this.prefixes[bucket] ?? ''
    try {
      return await this.calls.send(['EVALSHA', script.digest, '1', prefix, ...args], effect)
    } catch (error) {
      // The server has done nothing: it was restarted, or its scripts were flushed.
      if (!isNoScript(error)) throw error
      return this.calls.send(['EVAL', script.text, '1', prefix, ...args], effect)
    }
  }

  /** So that the first command of each kind is not sent twice. */
  async load(): Promise<void> {
    const all = [ATTEMPT, VIEW, CONFIGURE, LOOK, LEDGER, DUE, RELIST, FORGET, TIDY, TRIM]
    await Promise.all(
      all.map((script) => this.calls.send(['SCRIPT', 'LOAD', script.text], 'reads')),
    )
  }
}

/** FNV-1a, with a finish that mixes its low bits. */
function hash(text: string): number {
  let mixed = 0x811c9dc5
  for (const byte of Buffer.from(text)) mixed = Math.imul(mixed ^ byte, 0x01000193)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x45d9f3b)
  return (mixed ^ (mixed >>> 15)) >>> 0
}
