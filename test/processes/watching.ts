/** A watcher that is a process of its own, and what it has heard. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/watch-worker.js')

export interface Heard {
  readonly position: string
  readonly type: string
  readonly leaseId: string
  readonly atUs: number
}

export interface Watching {
  readonly process: ChildProcess
  readonly heard: Heard[]
  /** Resolves as soon as so many events were heard. */
  hears(count: number): Promise<void>
  kill(): Promise<void>
}

export async function startWatching(store: string, after = ''): Promise<Watching> {
  const child = spawn(process.execPath, [WORKER, store, after], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const heard: Heard[] = []
  let rest = ''
  let ready = false
  child.stdout.on('data', (chunk: Buffer) => {
    const lines = `${rest}${chunk.toString()}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const said = JSON.parse(line) as { readonly kind: string } & Heard
      if (said.kind === 'watching') ready = true
      else heard.push(said)
    }
  })
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await once(child.stdout, 'data')
  }
  await until(() => ready)
  return {
    ...{ process: child, heard },
    hears: async (count) => until(() => heard.length >= count),
    kill: async () => {
      child.kill('SIGKILL')
      await once(child, 'close')
    },
  }
}
