import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterEach, expect, it, vi } from 'vitest'
import { provideNode24 } from '../../scripts/node-24.mjs'

const run = promisify(execFile)

afterEach(() => {
  vi.unstubAllEnvs()
})

it('programs of tests run on Node 24, which brings SQLite and warns of nothing', async () => {
  const program = `await import('node:sqlite'); console.log(process.versions.node)`
  const { stdout, stderr } = await run(await provideNode24(), [
    '--input-type=module',
    '-e',
    program,
  ])
  expect(stdout).toMatch(/^24\./)
  expect(stderr).toBe('')
})

it('a Node 24 that is named and not there fails with the name of the variable', async () => {
  vi.stubEnv('TENURE_TEST_NODE_24', '/nowhere/node')
  await expect(provideNode24()).rejects.toThrow(/no \/nowhere\/node .*TENURE_TEST_NODE_24/)
})
