/**
 * Clients of coding agents as people install them, with a model that is a stub: each is set up by `tenure init`, wants to edit a
 * file that another holds, does not get to, and its model is told who has it.
 */
import fs from 'node:fs'
import path from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { provideAgents } from '../../scripts/more-packages.mjs'
import { startProgram } from '../cli/tenure-process.ts'
import { temporaryRepository, type TemporaryRepository } from '../git/temporary-repository.ts'
import { modelStub } from './model-stub.ts'

let programs = ''

beforeAll(async () => {
  programs = path.join(await provideAgents(), '.bin')
}, 10 * 60_000)

const HELD = 'held\n'
const DENIED = /src\/app\.ts is held by ann \(\\?"patch 12\\?"\) until [\d:]+ UTC; wait for it/

async function heldIn(client: string): Promise<TemporaryRepository> {
  const repository = temporaryRepository()
  repository.write('src/app.ts', HELD)
  await repository.tenure(['init', client, '--write'])
  await repository.tenure(['acquire', 'src/app.ts', '--reason', 'patch 12', '--ttl', '10m'])
  return repository
}

async function startAgent(
  { root, directory }: TemporaryRepository,
  command: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const [program = '', ...args] = command
  const own = { PATH: `${directory}/bin:${process.env['PATH']}`, HOME: directory, ...env }
  const running = startProgram([path.join(programs, program), ...args], { cwd: root, env: own })
  const { code, stdout, stderr } = await running.ended
  expect([code, stdout + stderr]).toEqual([0, expect.stringContaining('done')])
}

function isUntouched({ root }: TemporaryRepository): boolean {
  return fs.readFileSync(path.join(root, 'src/app.ts'), 'utf8') === HELD
}

it('Codex does not get to patch what another holds, and its model hears why', async () => {
  const patch = '*** Begin Patch\n*** Update File: src/app.ts\n@@\n-held\n+changed\n*** End Patch\n'
  const cmd = `apply_patch <<'EOF'\n${patch}EOF\n`
  const call = { type: 'function_call', id: 'f', call_id: 'c', name: 'exec_command' }
  const text = [{ type: 'output_text', text: 'done' }]
  const stub = await modelStub((_request, count) => {
    const id = `answer-${count}`
    const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
    const item =
      count === 1
        ? { ...call, arguments: JSON.stringify({ cmd }) }
        : { type: 'message', role: 'assistant', id: 'm', content: text }
    return [
      { type: 'response.created', response: { id } },
      { type: 'response.output_item.done', item },
      { type: 'response.completed', response: { id, usage } },
    ]
  })
  const repository = await heldIn('codex')
  const provider = {
    name: 'stub',
    base_url: `${stub.url}/v1`,
    wire_api: 'responses',
    env_key: 'KEY',
  }
  const lines = Object.entries(provider).map(([name, value]) => `${name} = "${value}"`)
  const home = path.join(repository.directory, 'codex')
  fs.mkdirSync(home)
  // It reads no hooks of a project that its user has not trusted.
  const trusted = `[projects."${repository.root}"]\ntrust_level = "trusted"\n`
  const head = `model = "stub"\nmodel_provider = "stub"\n${trusted}[model_providers.stub]\n`
  fs.writeFileSync(path.join(home, 'config.toml'), `${head}${lines.join('\n')}\n`)
  const options = ['--dangerously-bypass-hook-trust', '--sandbox', 'danger-full-access']
  const command = ['codex', 'exec', ...options, 'change it']
  await startAgent(repository, command, { CODEX_HOME: home, KEY: 'x' })
  expect(isUntouched(repository)).toBe(true)
  expect(stub.requests.at(-1)).toMatch(DENIED)
})

it('Gemini CLI does not get to write what another holds, and its model hears why', async () => {
  const repository = await heldIn('gemini')
  const { root, directory } = repository
  const args = { file_path: path.join(root, 'src/app.ts'), content: 'changed\n' }
  const stub = await modelStub((_request, count) => {
    const part = count === 1 ? { functionCall: { name: 'write_file', args } } : { text: 'done' }
    return [{ candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP' }] }]
  })
  const home = path.join(directory, '.gemini')
  fs.mkdirSync(home)
  const settings = { security: { auth: { selectedType: 'gemini-api-key' } } }
  fs.writeFileSync(path.join(home, 'settings.json'), JSON.stringify(settings))
  // It runs no hooks of a project whose folder its user has not trusted.
  fs.writeFileSync(
    path.join(home, 'trustedFolders.json'),
    JSON.stringify({ [root]: 'TRUST_FOLDER' }),
  )
  const command = ['gemini', '--yolo', '--model', 'gemini-2.5-flash', '--prompt', 'change it']
  await startAgent(repository, command, { GEMINI_API_KEY: 'x', GOOGLE_GEMINI_BASE_URL: stub.url })
  expect(isUntouched(repository)).toBe(true)
  expect(stub.requests.at(-1)).toMatch(DENIED)
})
