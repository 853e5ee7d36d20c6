/**
 * Installs packages that are in folders of their own, so that none of them can become a dependency of the package:
 * what Tenure is measured beside (bench/), a bundler, which the tests bundle Tenure with, and clients of MCP (test/tools/); and for
 * proofs Node 22 with the conformance suite and the inspector of MCP (test/node-22/) and clients of coding agents (test/coding-agents/).
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fingerprint, ROOT, runNpmCi, SetupError } from './setup.mjs'

/** The drivers of the peers are those of the root. */
export function providePeers() {
  return provide('bench', 'what Tenure is measured beside')
}

/** Node 22 (`nodeIn`) with the conformance suite and the inspector of MCP, which need it, for a proof. */
export function provideNode22() {
  return provide('test/node-22', 'Node 22, the conformance suite and the inspector of MCP')
}

/** Clients of coding agents, for a proof: half a gigabyte. */
export function provideAgents() {
  return provide('test/coding-agents', 'clients of coding agents')
}

export function provideBundler() {
  return provide('test/tools', 'a bundler for the tests')
}

/**
 * Sees to it that what the folder's lockfile asks for is there, and resolves to where that is. The second time it reads two
 * small files and is done.
 *
 * @param {string} name
 * @param {string} purpose
 * @returns {Promise<string>}
 */
async function provide(name, purpose) {
  const folder = join(ROOT, name)
  const packages = join(folder, 'node_modules')
  const stamp = join(packages, '.tenure-setup')
  const wanted = fingerprint(readFileSync(join(folder, 'package-lock.json'), 'utf8'), process)
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return packages
  process.stderr.write(`Installing ${purpose}…\n`)
  // Nothing of it needs to be compiled.
  const { status, output } = await runNpmCi(folder, ['--ignore-scripts'])
  if (status !== 0) {
    throw new SetupError(`${output.trimEnd()}\nnpm ci in ${name}/ failed with status ${status}.`)
  }
  writeFileSync(stamp, wanted)
  return packages
}

/**
 * Where esbuild is, for a test that starts it. A run of Vitest alone has not installed it; then the test fails with the
 * command that does.
 */
export function requireBundler() {
  const file = join(ROOT, 'test/tools/node_modules/esbuild/bin/esbuild')
  if (existsSync(file)) return file
  throw new SetupError('The tests need esbuild: npm ci --ignore-scripts --prefix test/tools')
}
