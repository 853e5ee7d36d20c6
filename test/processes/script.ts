/** Starts processes that do what they are told, and hears what became of it. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Order } from './script-worker.ts'

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/script-worker.js')

export interface Reply {
  readonly number: number
  readonly holder: string
  readonly value?: { readonly id?: string; readonly fence?: number } | null
  readonly error?: {
    readonly code: string
    readonly message: string
    readonly details: { readonly cycle?: readonly { readonly holder: string }[] }
  }
  /** When the worker began, and when it had its answer. */
  readonly sentUs: number
  readonly atUs: number
}

export interface Actor {
  readonly holder: string
  readonly process: ChildProcess
  tell(verb: Order['verb'], resource: string, rest?: Partial<Order>): Promise<Reply>
  /** Sends without waiting for anything. */
  shout(verb: Order['verb'], resource: string, rest?: Partial<Order>): void
  kill(): Promise<void>
  end(): Promise<void>
}

export async function startActor(store: string, holder: string): Promise<Actor> {
  const child = spawn(process.execPath, [WORKER, store, holder], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const waiting = new Map<number, (reply: Reply) => void>()
  const ready = new Promise<Reply>((resolve) => waiting.set(0, resolve))
  createInterface({ input: child.stdout }).on('line', (line) => {
    const reply = JSON.parse(line) as Reply
    waiting.get(reply.number)?.(reply)
  })
  const closed = once(child, 'close')
  await ready
  let count = 0
  const shout: Actor['shout'] = (verb, resource, rest) => {
    count += 1
    child.stdin.write(`${JSON.stringify({ number: count, verb, resource, ...rest })}\n`)
  }
  return {
    ...{ holder, process: child, shout },
    tell: async (verb, resource, rest) => {
      shout(verb, resource, rest)
      return new Promise((resolve) => waiting.set(count, resolve))
    },
    kill: async () => {
      child.kill('SIGKILL')
      await closed
    },
    end: async () => {
      child.stdin.end()
      await closed
    },
  }
}
