/** The commands of docs/server.md and the examples for other languages, as they stand. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { serving, temporaryDirectory } from './serving.ts'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../', import.meta.url))

interface Shown {
  readonly lease: { readonly state: string; readonly holder: string }
  readonly leases: readonly { readonly holder: string }[]
}

it('the three commands that docs/server.md begins with acquire, show who holds, and release', async () => {
  const server = await serving()
  const page = fs.readFileSync(`${ROOT}docs/server.md`, 'utf8')
  const commands = [...page.matchAll(/^```sh\n(curl [^\n]+)\n```$/gm)].map(([, line = '']) => line)
  expect(commands).toHaveLength(3)
  const cwd = temporaryDirectory()
  // Whoever tries them again gets the same answers.
  for (const _time of ['first', 'second']) {
    const answers: Shown[] = []
    for (const command of commands) {
      const here = command.replaceAll('http://127.0.0.1:7420', server.url)
      const { stdout } = await run('sh', ['-c', here], { cwd })
      answers.push(JSON.parse(stdout) as Shown)
    }
    expect(answers[0]?.lease).toMatchObject({ state: 'active', holder: 'ann' })
    expect(answers[1]?.leases).toMatchObject([{ holder: 'ann' }])
    expect(answers[2]?.lease).toMatchObject({ state: 'released' })
  }
})

it('examples/lease.sh runs a command under a lease, passes its status on, and releases', async () => {
  const server = await serving()
  const env = { ...process.env, TENURE_URL: server.url, TENURE_HOLDER: 'shell' }
  const script = `${ROOT}examples/lease.sh`
  const look = `curl -s '${server.url}/v1/resources?resource=work:W-1'; exit 7`
  const failed = await run(script, ['work:W-1', 'sh', '-c', look], { env }).catch(
    (error: unknown) => error,
  )
  expect(failed).toMatchObject({ code: 7 })
  const { leases } = JSON.parse((failed as { stdout: string }).stdout) as Shown
  expect(leases).toMatchObject([{ holder: 'shell' }])
  const after = await server.ask<Shown>('GET /v1/resources?resource=work:W-1')
  expect(after.body.leases).toEqual([])
})

it('examples/python/lease.py acquires, holds and releases, with a token', async () => {
  const server = await serving({ withTokens: true })
  const token = server.token({ name: 'py', role: 'holder' })
  const program = [
    'import sys, lease',
    'url, token = sys.argv[1:3]',
    'with lease.Lease(url, "work:W-1", "py", token=token) as held:',
    '    held.check()',
    '    try:',
    '        lease.Lease(url, "work:W-1", "py", wait=0, token=token).acquire()',
    '    except lease.Refused as refused:',
    '        print(refused.code)',
    'print(held.held)',
  ].join('\n')
  const { stdout } = await run('python3', ['-c', program, server.url, token], {
    cwd: `${ROOT}examples/python`,
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
  })
  expect(stdout).toBe('RESOURCE_HELD\nFalse\n')
  const left = await server.ask<Shown>('GET /v1/resources?resource=work:W-1', { token })
  expect(left.body.leases).toEqual([])
})

it('examples/opentelemetry.mjs prints a span for each call, with what came of it', async () => {
  const program = `${ROOT}examples/opentelemetry.mjs`
  const cwd = temporaryDirectory()
  const { stdout, stderr } = await run(process.execPath, [program], { cwd })
  expect(stderr).toBe('')
  const words = (name: string): readonly string[] => {
    const found = stdout.matchAll(new RegExp(`\\b${name}: '([^']+)'`, 'g'))
    return [...found].map(([, word = '']) => word)
  }
  const calls = words('name').filter((name) => name.startsWith('tenure '))
  expect(calls).toEqual(['tenure acquire', 'tenure acquire', 'tenure release'])
  expect(words('outcome')).toEqual(['granted', 'held', 'released'])
  expect(words('resource')).toEqual(['work:W-17', 'work:W-17', 'work:W-17'])
})
