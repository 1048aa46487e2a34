// Makes the copies of counter/scripts and the types, which git does not keep. npm runs it when it installs or packs
// this directory.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = new URL('..', import.meta.url)
const tsc = fileURLToPath(new URL('node_modules/typescript/bin/tsc', root))

mkdirSync(new URL('scripts/', root), { recursive: true })
for (const name of ['ask', 'begun', 'control', 'end', 'fail', 'record', 'start']) {
  copyFileSync(new URL(`../../counter/scripts/${name}.lua`, root), new URL(`scripts/${name}.lua`, root))
}
if (process.argv[2] !== 'scripts') {
  const run = (command, ...args) =>
    execFileSync(command, args, { cwd: fileURLToPath(root), stdio: ['ignore', 'inherit', 'inherit'] })
  if (!existsSync(tsc)) run('npm', 'ci', '--silent', '--no-audit', '--no-fund', '--ignore-scripts')
  run(process.execPath, tsc, '-p', '.')
}
