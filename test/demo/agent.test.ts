/** An agent of the demo, as the demo starts it: a process of its own, here before a store that is slow. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { openApi } from '../../src/open.ts'
import { isReport, type Assignment } from '../../src/demo/report.ts'
import { startServer } from '../../src/server/start-server.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'

const AGENT = fileURLToPath(new URL('../../dist/demo/agent.js', import.meta.url))
const TTL_MS = 1_000

/** A store whose first grant takes longer than the lease lasts, as on a disk that stands still for a while. */
async function slowStore(namespace: string): Promise<LeaseApi> {
  const api = await openApi('memory:', { namespace })
  let isFirst = true
  const acquire: LeaseApi['acquire'] = async (request) => {
    const answer = await api.acquire(request)
    if (isFirst) {
      isFirst = false
      await pause(2 * TTL_MS)
    }
    return answer
  }
  return new Proxy(api, {
    get: (target, name) => {
      if (name === 'acquire') return acquire
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

it('goes on to the next file when a lease was over before its grant arrived', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-agent-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true }))
  const server = await startServer({ open: slowStore, port: 0 })
  onTestFinished(() => server.close())
  const files = ['a.md', 'b.md'].map((name) => path.join(directory, name))
  const assignment: Assignment = {
    ...{ name: 'ada', role: 'worker', storeUrl: server.url, files, firstFile: 0 },
    ...{ ttlMs: TTL_MS, cueMs: 0 },
  }

  const agent = spawn(process.execPath, [AGENT], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  onTestFinished(() => void agent.kill('SIGKILL'))
  let words = ''
  agent.stderr?.on('data', (text: Buffer) => (words += text.toString()))
  const asked: string[] = []
  agent.on('message', (message) => {
    if (!isReport(message) || message.kind !== 'asks') return
    asked.push(message.file)
    if (asked.length === 2) agent.send('finish')
  })
  agent.send(assignment)
  const [code] = (await once(agent, 'close')) as [number | null]
  expect({ code, words, asked }).toEqual({ code: 0, words: '', asked: ['a.md', 'b.md'] })
})
